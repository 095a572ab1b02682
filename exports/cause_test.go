package exports_test

import (
	"errors"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
)

func TestCauseError_IsErrFailedByDefault(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	err := error(&exports.CauseError{Cause: "the disk is gone"})
	is.Equal(err.Error(), exports.ErrFailed.Error())
	is.True(errors.Is(err, exports.ErrFailed))
}
