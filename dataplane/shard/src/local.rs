//! Values that belong to a shard, named so that jobs from other threads can ask for them.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::rc::Rc;

/// Name of a value kept on one shard. It can be sent anywhere; only the shard can follow it.
pub struct Local<T> {
    number: u64,
    kind: PhantomData<fn() -> T>,
}

impl<T> std::fmt::Debug for Local<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Local").field(&self.number).finish()
    }
}

impl<T> Clone for Local<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Local<T> {}

/// The values kept on one shard.
#[derive(Default)]
pub struct Locals {
    values: RefCell<HashMap<u64, Rc<dyn Any>>>,
    next: Cell<u64>,
}

impl Locals {
    pub(crate) fn keep<T: 'static>(&self, value: Rc<T>) -> Local<T> {
        let number = self.next.get();
        self.next.set(number + 1);
        self.values.borrow_mut().insert(number, value);
        Local { number, kind: PhantomData }
    }

    pub(crate) fn get<T: 'static>(&self, name: Local<T>) -> Option<Rc<T>> {
        self.values.borrow().get(&name.number).cloned()?.downcast().ok()
    }

    /// Drops all values, as at the end of a process.
    pub fn clear(&self) {
        // Values may ask for others while they are dropped.
        drop(self.values.take());
    }

    pub(crate) fn give_up<T>(&self, name: Local<T>) {
        self.values.borrow_mut().remove(&name.number);
    }
}
