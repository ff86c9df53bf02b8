//! Where replicas lie, as Python sees it: read-only copies of what the master said.
//! Invariant: a descriptor is a snapshot; holding one keeps nothing alive in the cluster.

use crate::enumeration::ReplicaStatus;
use perigee_schemas::SegmentKind;
use perigee_store::api;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Address of a replica: buffer_address, size in bytes, transport_endpoint "host:port".
#[pyclass(frozen, from_py_object, module = "mooncake.store", get_all)]
#[derive(Clone, Debug, Default)]
pub(crate) struct Descriptor {
    size: u64,
    buffer_address: u64,
    transport_endpoint: String,
}

#[pymethods]
impl Descriptor {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn __repr__(&self) -> String {
        format!(
            "<Descriptor size={} buffer_address={:#x} transport_endpoint={:?}>",
            self.size, self.buffer_address, self.transport_endpoint
        )
    }
}

/// A replica in memory.
#[pyclass(frozen, module = "mooncake.store", get_all)]
#[derive(Debug)]
pub(crate) struct MemoryDescriptor {
    buffer_descriptor: Descriptor,
}

/// A replica in a file: file_path, object_size in bytes.
#[pyclass(frozen, module = "mooncake.store", get_all)]
#[derive(Debug)]
pub(crate) struct DiskDescriptor {
    file_path: String,
    object_size: u64,
}

/// One replica of an object: its status and, for replicas in memory, its address.
#[pyclass(frozen, module = "mooncake.store")]
#[derive(Debug)]
pub(crate) struct ReplicaDescriptor {
    status: ReplicaStatus,
    kind: Option<SegmentKind>,
    descriptor: Descriptor,
}

impl From<api::ReplicaInfo> for ReplicaDescriptor {
    fn from(replica: api::ReplicaInfo) -> Self {
        Self {
            status: ReplicaStatus::from_value(replica.status).unwrap_or(ReplicaStatus::UNDEFINED),
            kind: replica.kind,
            descriptor: Descriptor {
                size: replica.bytes,
                buffer_address: replica.address,
                transport_endpoint: replica.transport_endpoint,
            },
        }
    }
}

#[pymethods]
impl ReplicaDescriptor {
    /// State of the replica.
    #[getter]
    fn status(&self) -> ReplicaStatus {
        self.status
    }

    /// Whether the replica lies in memory.
    fn is_memory_replica(&self) -> bool {
        self.kind == Some(SegmentKind::Memory)
    }

    /// False: this build has no replicas on shared disks.
    fn is_disk_replica(&self) -> bool {
        false
    }

    /// Whether the replica lies on its node's own disk.
    fn is_local_disk_replica(&self) -> bool {
        self.kind == Some(SegmentKind::Disk)
    }

    /// The address of the replica. Raises RuntimeError if it does not lie in memory.
    fn get_memory_descriptor(&self) -> PyResult<MemoryDescriptor> {
        match self.is_memory_replica() {
            true => Ok(MemoryDescriptor { buffer_descriptor: self.descriptor.clone() }),
            false => Err(PyRuntimeError::new_err("The replica does not lie in memory")),
        }
    }

    /// Raises RuntimeError: there are no replicas on shared disks.
    fn get_disk_descriptor(&self) -> PyResult<DiskDescriptor> {
        Err(PyRuntimeError::new_err("The replica does not lie on a shared disk"))
    }

    fn __repr__(&self) -> String {
        format!("<ReplicaDescriptor {:?}>", self.descriptor)
    }
}
