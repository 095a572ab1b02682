package zipstream

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/matryer/is"
)

// TestHeader_Zip64FromItsFirstValue checks the number that marks a field as one of zip64,
// which no file can be large enough to have in a test.
func TestHeader_Zip64FromItsFirstValue(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, h := range []*header{
		{Entry: Entry{Name: "a", Size: math.MaxUint32}},
		{Entry: Entry{Name: "a"}, compressed: math.MaxUint32},
		{Entry: Entry{Name: "a"}, offset: math.MaxUint32},
	} {
		is.True(h.needsZip64())
		central := h.appendCentral(nil)
		is.Equal(binary.LittleEndian.Uint16(central[6:]), uint16(version64)) // needed to extract
	}
	below := &header{Entry: Entry{Name: "a", Size: math.MaxUint32 - 1}, compressed: math.MaxUint32 - 1, offset: math.MaxUint32 - 1}
	is.True(!below.needsZip64())
	is.Equal(binary.LittleEndian.Uint16(below.appendCentral(nil)[6:]), uint16(versionDefault))
}
