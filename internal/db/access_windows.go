package db

// mayWrite does not know: Windows says it when the file is opened.
func mayWrite(string) error { return nil }

func isMine(string) bool { return true }
