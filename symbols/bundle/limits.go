package bundle

import "cmp"

// Defaults of [Limits].
const (
	DefaultEntries = 10_000
	DefaultSymbol  = 50 << 20
	DefaultTotal   = 256 << 20
	DefaultRatio   = 200
)

// Limits bound what [Read] takes from an archive. A zero stands for the
// default.
type Limits struct {
	// Entries is how many entries an archive may have beside its manifest,
	// ignored ones included.
	Entries int

	// Symbol is how many bytes of data a symbol may have, and Total how many
	// all of them may have. Total bounds all that comes out of the archive
	// too.
	Symbol int64
	Total  int64

	// Ratio is how many times its size an archive may expand to, beyond the
	// first 4 MiB.
	Ratio int64
}

// freeOfRatio is what any archive may expand to.
const freeOfRatio = 4 << 20

func (l *Limits) orDefaults() Limits {
	var given Limits
	if l != nil {
		given = *l
	}
	// Beyond these there is nothing to bound, and sums stay small.
	const count, size, ratio = 1<<31 - 1, 1 << 40, 1 << 20
	return Limits{
		Entries: min(cmp.Or(max(given.Entries, 0), DefaultEntries), count),
		Symbol:  min(cmp.Or(max(given.Symbol, 0), DefaultSymbol), size),
		Total:   min(cmp.Or(max(given.Total, 0), DefaultTotal), size),
		Ratio:   min(cmp.Or(max(given.Ratio, 0), DefaultRatio), ratio),
	}
}
