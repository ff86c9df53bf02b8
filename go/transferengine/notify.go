package transferengine

/*
#include <transfer_engine_c.h>
*/
import "C"

import "unsafe"

// Notify is a message to or from a peer.
type Notify struct {
	Name    string
	Message string
}

// Notify sends a message to a peer and waits until the peer has it.
func (e *Engine) Notify(segment Segment, notify Notify) error {
	engine, err := e.open()
	if err != nil {
		return err
	}
	name, err := newText(notify.Name)
	if err != nil {
		return err
	}
	defer freeText(name)
	text, err := newText(notify.Message)
	if err != nil {
		return err
	}
	defer freeText(text)
	message := C.notify_msg_t{name: name, msg: text}
	code := C.genNotifyInEngine(engine, C.uint64_t(segment), message)
	return verdict("genNotifyInEngine", code)
}

// TakeNotifies takes the messages that peers have sent, oldest first.
func (e *Engine) TakeNotifies() ([]Notify, error) {
	engine, err := e.open()
	if err != nil {
		return nil, err
	}
	var count C.int
	messages := C.getNotifsFromEngine(engine, &count)
	if messages == nil {
		return nil, nil
	}
	taken := make([]Notify, count)
	for index, message := range unsafe.Slice(messages, int(count)) {
		taken[index] = Notify{Name: C.GoString(message.name), Message: C.GoString(message.msg)}
	}
	C.freeNotifsMsgBuf(messages, count)
	return taken, nil
}
