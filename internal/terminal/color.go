package terminal

// Color is a colour of text on a terminal, as the parameter of its escape sequence (ECMA-48
// 8.3.117).
type Color string

// The colours. None leaves a text as it is.
const (
	None   Color = ""
	Red    Color = "31"
	Green  Color = "32"
	Yellow Color = "33"
	Faint  Color = "2"
)

// Of is a text in that colour.
func (c Color) Of(text string) string {
	if c == None || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}
