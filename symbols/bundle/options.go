package bundle

import "cmp"

// Options configure [Read] and [MemorySize]. The zero value is valid.
type Options struct {
	Limits Limits

	// DryRun makes Read return symbols without their data, which it checks one
	// after the other.
	DryRun bool

	// Skip leaves out what cannot be imported, instead of all, and reports it in
	// [Contents].
	Skip bool

	// Name is the name of a single picture, and Folder, after it, that of a library
	// without a title.
	Name, Folder string
}

// Limits bound what [Read] accepts from an archive.
type Limits struct {
	// Entries is the maximum number of entries, ignored ones included and the
	// manifest excluded. Zero means 50,000.
	Entries int

	// Symbol is the maximum size of one symbol's data in bytes. Zero means 50
	// MiB.
	Symbol int64

	// Total is the maximum size of all symbols' data, meta and tags in bytes, and also of
	// everything that is decompressed. Zero means 256 MiB.
	Total int64

	// Ratio is the maximum size of everything that is decompressed, divided
	// by the size of the archive. The first 4 MiB are exempt. Zero means 200.
	Ratio int64
}

// ratioFreeBytes may be decompressed from any archive.
const ratioFreeBytes = 4 << 20

func (o *Options) withDefaults() Options {
	given := *cmp.Or(o, new(Options))
	limits := given.Limits
	// These caps prevent integer overflow.
	const maxCount, maxSize, maxRatio = 1 << 30, 1 << 40, 1 << 20
	given.Limits = Limits{
		Entries: min(cmp.Or(max(limits.Entries, 0), 50_000), maxCount),
		Symbol:  min(cmp.Or(max(limits.Symbol, 0), 50<<20), maxSize),
		Total:   min(cmp.Or(max(limits.Total, 0), 256<<20), maxSize),
		Ratio:   min(cmp.Or(max(limits.Ratio, 0), 200), maxRatio),
	}
	return given
}
