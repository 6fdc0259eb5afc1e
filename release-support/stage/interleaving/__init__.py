"""Calls, edits, cancels and reloads in every order: what `release-support/interleave` plays with.

- `schedules` says which orders there are, and knows nothing else;
- `scheduler` lets one actor after another take a step; `awaits` ends a step at each await of
  dispatcher and gate;
- `world` is the host without its network, with `hosts`, `network` and `generations`;
- `scenes` says who acts, `ledger` what happened, `oracle` what must hold;
- `holes` opens closed holes again; `explorer` puts it all together.
"""
