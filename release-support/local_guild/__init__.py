"""A preflight service on loopback that really probes, and the wire server that tests play broken
answers with.

The way of one request, from the caller to the probed server and back:

    __main__      the command
    service       who is answered, and what
    callers       connections to the service, bounded
    probe         one URL from the text to the answer, under one clock
    handshake     a real MCP `initialize`, over streamable HTTP or server-sent events
    cards         the agent card; payment: whether a price on it is asked for
    events        server-sent events; documents: JSON before it is parsed
    exchange      one HTTP request, bounded
    connection    plain or TLS, to an address of the probe
    addresses     where the name leads, asked once
    credentials   which headers belong to exactly this URL; agent_zero: what its settings say
    allowance     what one probe may take
    threads       for look-ups and TLS handshakes
    findings      what was seen, as checks; answers: the contract of an answer

`wire` stands apart: it is the scripted server of the tests.
"""
