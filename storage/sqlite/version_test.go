package sqlite

import "testing"

func TestVersionTooOld_ComparesNumbers(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"3.51.3":  false,
		"3.51.4":  false,
		"3.52.0":  false,
		"3.100.0": false,
		"4.0.0":   false,
		"3.51.2":  true,
		"3.51":    true,
		"3.6.23":  true,
		"2.99.9":  true,
		"":        true,
	} {
		if versionTooOld(version) != want {
			t.Errorf("versionTooOld(%q) is %v", version, !want)
		}
	}
}
