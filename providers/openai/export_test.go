package openai

// BaseURL tells the address of a client that a test made.
func BaseURL(c *Client) string { return c.endpoint.BaseURL }
