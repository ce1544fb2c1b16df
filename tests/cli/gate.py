#!/usr/bin/env python3
"""gate.py ACTION... -- COMMAND...: runs COMMAND (with --progress always) and holds it in the middle of its work, without a clock.

Standard error is a pipe with room for one message of progress: once the first is there the program is at work, and it cannot get past its next one.
Then come the actions: TERM, HUP ... sends that signal; anything else is a shell command. Then the pipe is emptied. Leaves ./out, ./err and ./code
(128 + N for a death by signal N)."""
import array
import fcntl
import os
import signal
import subprocess
import sys
import termios
import time

ROOM = 100  # a message has 79 bytes
F_SETPIPE_SZ = 1031


def waiting(pipe):
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


at = sys.argv.index("--")
actions, command = sys.argv[1:at], sys.argv[at + 1 :]
reader, writer = os.pipe()
filled = fcntl.fcntl(writer, F_SETPIPE_SZ, 4096) - ROOM
os.write(writer, b"." * filled)
with open("out", "wb") as out:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=writer)
os.close(writer)
while waiting(reader) == filled and process.poll() is None:
    time.sleep(0.01)
if process.poll() is not None:
    print("gate.py: the program ended before it was at work")
for action in actions:
    if hasattr(signal, "SIG" + action):
        process.send_signal(getattr(signal, "SIG" + action))
    else:
        subprocess.run(action, shell=True, check=True)
with open("err", "wb") as err, os.fdopen(reader, "rb") as pipe:
    err.write(pipe.read()[filled:])
code = process.wait()
with open("code", "w") as file:
    file.write(str(code if code >= 0 else 128 - code))
