package transferengine

/*
#include <stdlib.h>
#include <transfer_engine_c.h>

static inline void *batch_pointer(uintptr_t number) { return (void *)number; }
*/
import "C"

import (
	"context"
	"fmt"
	"time"
)

// Opcode is the direction of a transfer.
type Opcode int

const (
	Read  Opcode = C.OPCODE_READ  // from the peer to this process
	Write Opcode = C.OPCODE_WRITE // from this process to the peer
)

// Request is one contiguous transfer.
type Request struct {
	Opcode  Opcode
	Local   uintptr // memory of this process, which stays until the batch has ended
	Segment Segment
	Remote  uint64 // address in the process of the segment
	Size    uint64
}

// pause between two looks at a batch.
const pause = 100 * time.Microsecond

// TransferError is a batch of which a request did not end well.
type TransferError struct {
	// Index of the request.
	Index int
	// Status is one of the STATUS_ numbers of transfer_engine_c.h.
	Status int
}

// Error says which request, and how it ended.
func (e *TransferError) Error() string {
	return fmt.Sprintf("transferengine: request %d ended with status %d", e.Index, e.Status)
}

// Transfer moves a batch and waits for its end, which comes within MC_TRANSFER_TIMEOUT.
//
// When ctx ends first, Transfer answers its error. The batch is still under way then: its memory
// must stay, and wait, which is nil otherwise, ends when the batch has ended.
func (e *Engine) Transfer(ctx context.Context, requests []Request) (wait <-chan error, err error) {
	engine, err := e.open()
	if err != nil || len(requests) == 0 {
		return nil, err
	}
	batch := C.allocateBatchID(engine, C.size_t(len(requests)))
	if batch == C.INVALID_BATCH {
		return nil, &CallError{Call: "allocateBatchID", Code: -1}
	}
	all := make([]C.transfer_request_t, len(requests))
	for index, request := range requests {
		all[index].opcode = C.int(request.Opcode)
		all[index].source = C.batch_pointer(C.uintptr_t(request.Local))
		all[index].target_id = C.int32_t(request.Segment)
		all[index].target_offset = C.uint64_t(request.Remote)
		all[index].length = C.uint64_t(request.Size)
	}
	if code := C.submitTransfer(engine, batch, &all[0], C.size_t(len(all))); code != 0 {
		C.freeBatchID(engine, batch)
		return nil, verdict("submitTransfer", code)
	}
	ended := make(chan error, 1)
	go func() { ended <- finish(engine, batch, len(requests)) }()
	select {
	case err := <-ended:
		return nil, err
	case <-ctx.Done():
		return ended, ctx.Err()
	}
}

// finish waits until every request is final and forgets the batch; the first error.
func finish(engine C.transfer_engine_t, batch C.uint64_t, count int) error {
	var first error
	for index := 0; index < count; index++ {
		status, err := final(engine, batch, index)
		if err != nil {
			return err
		}
		if status != C.STATUS_COMPLETED && first == nil {
			first = &TransferError{Index: index, Status: status}
		}
	}
	C.freeBatchID(engine, batch)
	return first
}

// final is the state of a request that has ended. Batches have a deadline, so it comes.
func final(engine C.transfer_engine_t, batch C.uint64_t, index int) (int, error) {
	for {
		var status C.transfer_status_t
		if code := C.getTransferStatus(engine, batch, C.size_t(index), &status); code != 0 {
			return 0, verdict("getTransferStatus", code)
		}
		if status.status != C.STATUS_WAITING && status.status != C.STATUS_PENDING {
			return int(status.status), nil
		}
		time.Sleep(pause)
	}
}
