"""What a process inherits from whoever starts it, put in order for the processes it starts.

nohup, a job of a shell script and some init systems start a command with signals ignored; that is
passed on, so a server or a command that a test starts and stops would not hear its signal.
"""

from __future__ import annotations

import signal

# Python ignores these itself, and `subprocess` gives them back to a child.
_PYTHONS_OWN = {signal.SIGPIPE, signal.SIGXFSZ}


def restore_signals() -> None:
    """Have the processes that this one starts hear every signal, whatever this one was told.

    What this process has been told to ignore it goes on ignoring: a suite under nohup survives
    its terminal. But it does so in a handler, which is not inherited. Call it in the main thread.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - _PYTHONS_OWN:
        if signal.getsignal(number) is signal.SIG_IGN:
            # An ignored SIGCHLD is more than a signal unheard: exit codes are lost.
            is_child = number == signal.SIGCHLD
            signal.signal(number, signal.SIG_DFL if is_child else _do_nothing)


def _do_nothing(_number: int, _frame: object) -> None:
    pass
