//! The native module behind `mooncake.store` and `mooncake.engine`. Invariant: nothing here holds
//! the interpreter while it waits, and no panic, foreign thread, open store or engine outlives a
//! call or the interpreter unnoticed.

mod arguments;
mod buffer_handle;
mod descriptor;
mod engine;
mod enumeration;
mod host_memory;
mod limits;
mod lock;
mod replicate_config;
mod session;
mod setup;
mod signals;
mod staging;
mod store;
mod task;
mod trace;
mod transfer;
mod value;
mod warning;
mod without_gil;

use pyo3::prelude::*;

/// Native part of `mooncake.store` and `mooncake.engine`; import those instead.
#[pymodule]
fn _perigee(module: &Bound<'_, PyModule>) -> PyResult<()> {
    without_gil::begin();
    warning::log_store_messages();
    module.add_class::<store::StoreClient>()?;
    module.add_class::<replicate_config::ReplicateConfig>()?;
    module.add_class::<buffer_handle::BufferHandle>()?;
    module.add_class::<descriptor::ReplicaDescriptor>()?;
    module.add_class::<descriptor::MemoryDescriptor>()?;
    module.add_class::<descriptor::DiskDescriptor>()?;
    module.add_class::<descriptor::Descriptor>()?;
    module.add_class::<enumeration::ObjectDataType>()?;
    module.add_class::<enumeration::SoftPinAction>()?;
    module.add_class::<enumeration::ReplicaStatus>()?;
    module.add_class::<enumeration::TaskType>()?;
    module.add_class::<enumeration::TaskStatus>()?;
    module.add_class::<task::QueryTaskResponse>()?;
    module.add_class::<host_memory::HostMemory>()?;
    module.add_function(wrap_pyfunction!(host_memory::bind_to_numa_node, module)?)?;
    module.add_function(wrap_pyfunction!(host_memory::get_alloc_func_addr, module)?)?;
    module.add_function(wrap_pyfunction!(host_memory::get_free_func_addr, module)?)?;
    module.add_class::<engine::EngineClient>()?;
    module.add_class::<engine::EngineHandle>()?;
    module.add_class::<engine::TransferNotify>()?;
    module.add_class::<enumeration::TransferOpcode>()?;
    module.add_function(wrap_pyfunction!(warning::without_effect, module)?)?;
    // Exit handlers run in reverse: those of the program, registered later, may still use its
    // stores, and stores end before the engines they were set up with.
    for close_all in [
        wrap_pyfunction!(engine::close_all, module)?,
        wrap_pyfunction!(session::close_all, module)?,
    ] {
        module.py().import("atexit")?.call_method1("register", (&close_all,))?;
        module.add_function(close_all)?;
    }
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
