package transport

import (
	"errors"
	"net/url"
)

// CheckBaseURL says what is wrong with a configured address. Addresses are printed, so there may be no secret in one.
func CheckBaseURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("must be a whole address such as https://host")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("may not contain a password, query or fragment; put the key into an environment variable")
	}
	return nil
}
