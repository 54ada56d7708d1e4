// Package freeport finds a port for an OpenCode server. For port 0, OpenCode 1.18 takes 4096 if that is free, which is
// the port that users give to their own OpenCode.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Find returns a TCP port of 127.0.0.1 from 10000 to 29999 without a listener. Systems assign higher ports (Linux: from
// 32768), so no other program takes it while a server restarts.
func Find() (string, error) {
	for range 100 {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			return port, l.Close()
		}
	}
	return "", errors.New("no free port from 10000 to 29999 was found")
}
