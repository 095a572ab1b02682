package paging

import (
	"math"
	"testing"

	"github.com/matryer/is"
)

func TestCut_ReportsWhetherRecordsFollow(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	all := []int{1, 2, 3}
	for _, limit := range []int{math.MinInt, -1, 0, 1, 2, 3, 4, math.MaxInt - 1, math.MaxInt} {
		want := len(all)
		if limit > 0 {
			want = min(limit, want)
		}
		page, more := Cut(all[:min(FetchLimit(limit), len(all))], limit)
		is.Equal(page, all[:want])
		is.Equal(more, want < len(all))
		is.True(limit <= 0 || FetchLimit(limit)-1 <= limit)
	}
}
