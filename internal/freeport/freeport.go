// Package freeport finds a port for an OpenCode server. OpenCode 1.18 takes 4096 for port 0 where it is free, which is
// the port that people give to an OpenCode of their own.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Find returns a TCP port of 127.0.0.1 from 10000 to 29999 that nobody listens on, below those that systems hand out
// (Linux: from 32768), so that nobody else takes it while a server comes back to it.
func Find() (string, error) {
	for range 100 {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			return port, l.Close()
		}
	}
	return "", errors.New("no free port from 10000 to 29999 was found")
}
