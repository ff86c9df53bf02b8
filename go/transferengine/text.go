package transferengine

/*
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"
)

// ErrInvalidArgument is the answer to a text with a NUL byte, at which a text of C ends.
var ErrInvalidArgument = errors.New("transferengine: invalid argument")

// newText is a text of C; freeText gives it back.
func newText(word string) (*C.char, error) {
	if strings.IndexByte(word, 0) >= 0 {
		return nil, fmt.Errorf("%w: %q has a NUL byte", ErrInvalidArgument, word)
	}
	return C.CString(word), nil
}

func freeText(word *C.char) {
	C.free(unsafe.Pointer(word))
}
