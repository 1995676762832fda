"""What all tests need."""

import signal

# A shell that starts its tests in the background has them ignore Ctrl-C, and so would the programs
# that are started, and interrupted, here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
