package watch

// OnStored has f called when an intent is on disk and not sent yet. An error of it ends the watch, as a crash would.
func (c *Config) OnStored(f func(Intent) error) { c.stored = f }
