package mooncakestore

import (
	"errors"
	"fmt"
)

// What a call was about. Errors of calls wrap one of them: test with errors.Is.
var (
	ErrStoreNil         = errors.New("mooncakestore: the store is closed")
	ErrSetupFailed      = errors.New("mooncakestore: setup failed")
	ErrInitAllFailed    = errors.New("mooncakestore: init all failed")
	ErrHealthCheck      = errors.New("mooncakestore: not healthy")
	ErrPut              = errors.New("mooncakestore: put failed")
	ErrGet              = errors.New("mooncakestore: get failed")
	ErrRemove           = errors.New("mooncakestore: remove failed")
	ErrExist            = errors.New("mooncakestore: the question for existence failed")
	ErrGetSize          = errors.New("mooncakestore: the question for the size failed")
	ErrRegisterBuffer   = errors.New("mooncakestore: register buffer failed")
	ErrUnregisterBuffer = errors.New("mooncakestore: unregister buffer failed")
	ErrBatchOp          = errors.New("mooncakestore: batch failed")
	ErrHostname         = errors.New("mooncakestore: the host name was not answered")
	ErrInvalidArgument  = errors.New("mooncakestore: invalid argument")
)

// Codes of store_c.h that callers react to.
const (
	CodeNoSpace        = -200  // no segment has room
	CodeInvalidParams  = -600  // not set up, or a value that makes no sense
	CodeNotFound       = -704  // no such object
	CodeHasLease       = -706  // it is being read: not removed
	CodeTransferFailed = -800  // the bytes did not move
	CodeNoMaster       = -900  // the master or a node does not answer
	CodeTimeout        = -901  // not within the deadline
	CodeOverQuota      = -1700 // the tenant's quota is used up
	CodeUnknownTenant  = -1701 // the tenant has no quota
)

// CallError is a call that the library answered with a code.
type CallError struct {
	// Call is one of the errors above.
	Call error
	// Code is the library's answer; the standard error has a line with the reason.
	Code int
}

// Error says what failed, and the code.
func (e *CallError) Error() string {
	return fmt.Sprintf("%v (code %d)", e.Call, e.Code)
}

// Unwrap lets errors.Is find the call.
func (e *CallError) Unwrap() error {
	return e.Call
}

// Code is the library's code for an error of this package, 0 for nil and -1 for others.
func Code(err error) int {
	var call *CallError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &call):
		return call.Code
	}
	return -1
}

func verdict(call error, code int) error {
	if code == 0 {
		return nil
	}
	return &CallError{Call: call, Code: code}
}
