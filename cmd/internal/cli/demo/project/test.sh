#!/bin/sh
# The program greets, and says goodbye.
want="Hello, Ada!
Goodbye, Ada!"
got=$(sh greeter.sh Ada)
if [ "$got" != "$want" ]; then
	printf 'want:\n%s\ngot:\n%s\n' "$want" "$got"
	exit 1
fi
echo ok
