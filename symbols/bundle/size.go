package bundle

import (
	"math"
	"strconv"
	"strings"
)

// What browsers make of an SVG that tells no size (CSS 2.1, section 10.3.2).
const defaultWidth, defaultHeight = 300, 150

// cssPixels are the units of length (CSS Values and Units 4, section 6). Those
// that depend on a font are as in one of 16 px.
var cssPixels = map[string]float64{
	"": 1, "px": 1,
	"in": 96, "pc": 16, "pt": 96.0 / 72, "cm": 96 / 2.54, "mm": 96 / 25.4, "q": 96 / 101.6,
	"em": 16, "rem": 16, "ex": 8,
}

// drawnSize returns the size at which browsers draw an SVG whose root element
// has these attributes, in CSS pixels.
func drawnSize(attributes map[string]string) (width, height float64) {
	width, height = pixels(attributes["width"]), pixels(attributes["height"])
	boxWidth, boxHeight := viewBox(attributes["viewBox"])
	switch hasBox := boxWidth > 0 && boxHeight > 0; {
	case hasBox && width == 0 && height == 0:
		width, height = boxWidth, boxHeight
	case hasBox && width == 0:
		width = height / boxHeight * boxWidth
	case hasBox && height == 0:
		height = width / boxWidth * boxHeight
	}
	return sensible(width, defaultWidth), sensible(height, defaultHeight)
}

// pixels reads a length, or returns zero for one that is relative to what is
// around the image or has no meaning.
func pixels(text string) float64 {
	text = strings.ToLower(strings.TrimSpace(text))
	// An exponent ends in digits: the letters behind them are the unit.
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz%")
	factor, known := cssPixels[text[len(number):]]
	value, ok := positive(number)
	if !known || !ok {
		return 0
	}
	return value * factor
}

// viewBox reads the last two numbers of four.
func viewBox(text string) (width, height float64) {
	numbers := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
	if len(numbers) != 4 {
		return 0, 0
	}
	width, _ = positive(numbers[2])
	height, _ = positive(numbers[3])
	return width, height
}

// positive reads a decimal number above zero.
func positive(text string) (float64, bool) {
	if strings.Trim(text, "+-.0123456789eE") != "" { // Go knows other numbers too
		return 0, false
	}
	value, err := strconv.ParseFloat(text, 64)
	return value, err == nil && value > 0
}

// sensible rounds to thousandths, and replaces what is no size.
func sensible(value, instead float64) float64 {
	value = math.Round(value*1000) / 1000
	if value > 0 && value <= math.MaxInt32 {
		return value
	}
	return instead
}
