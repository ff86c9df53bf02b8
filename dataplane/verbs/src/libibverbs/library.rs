//! libibverbs.so.1, loaded at run time.
//! Invariant: a table with every call that is needed, or none at all; the library stays loaded as
//! long as anything made with it lives.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::fmt;
use std::sync::Arc;

use crate::error::VerbsError;

use super::abi::{
    ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq, ibv_device, ibv_device_attr,
    ibv_gid_entry, ibv_mr, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_attr, ibv_qp_init_attr,
};

/// The soname: fixed since 2006, with versioned symbols. The loader picks the newest version of
/// each.
const LIBRARY: &str = "libibverbs.so.1";

pub(super) type QueryGidTable =
    unsafe extern "C" fn(*mut ibv_context, *mut ibv_gid_entry, usize, u32, usize) -> isize;
pub(super) type RegDmabufMr =
    unsafe extern "C" fn(*mut ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ibv_mr;

pub(super) type RegMrIova2 =
    unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, u64, c_uint) -> *mut ibv_mr;

macro_rules! calls {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The calls, under the library's own names.
        pub(super) struct Library {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            /// Absent before rdma-core 34.
            pub(super) query_gid_table: Option<QueryGidTable>,
            /// Absent before rdma-core 34.
            pub(super) reg_dmabuf_mr: Option<RegDmabufMr>,
            /// Absent before rdma-core 28. Drops the optional access flags that the kernel does not
            /// know.
            pub(super) reg_mr_iova2: Option<RegMrIova2>,
            _loaded: libloading::Library,
        }

        impl Library {
            fn resolve(loaded: libloading::Library) -> Result<Library, libloading::Error> {
                // SAFETY: the types are those of the C header, checked by the tests of `abi`.
                unsafe {
                    $(let $name = *loaded.get(concat!(stringify!($name), "\0").as_bytes())?;)*
                    let query_gid_table = loaded.get(b"_ibv_query_gid_table\0");
                    let reg_mr_iova2 = loaded.get(b"ibv_reg_mr_iova2\0");
                    let reg_dmabuf_mr = loaded.get(b"ibv_reg_dmabuf_mr\0");
                    Ok(Library {
                        $($name,)*
                        query_gid_table: query_gid_table.ok().map(|call| *call),
                        reg_dmabuf_mr: reg_dmabuf_mr.ok().map(|call| *call),
                        reg_mr_iova2: reg_mr_iova2.ok().map(|call| *call),
                        _loaded: loaded,
                    })
                }
            }
        }
    };
}

calls! {
    ibv_get_device_list: fn(*mut c_int) -> *mut *mut ibv_device;
    ibv_free_device_list: fn(*mut *mut ibv_device) -> ();
    ibv_get_device_name: fn(*mut ibv_device) -> *const c_char;
    ibv_open_device: fn(*mut ibv_device) -> *mut ibv_context;
    ibv_close_device: fn(*mut ibv_context) -> c_int;
    ibv_query_device: fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
    ibv_query_port: fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
    ibv_query_gid: fn(*mut ibv_context, u8, c_int, *mut [u8; 16]) -> c_int;
    ibv_get_async_event: fn(*mut ibv_context, *mut ibv_async_event) -> c_int;
    ibv_ack_async_event: fn(*mut ibv_async_event) -> ();
    ibv_alloc_pd: fn(*mut ibv_context) -> *mut ibv_pd;
    ibv_dealloc_pd: fn(*mut ibv_pd) -> c_int;
    ibv_reg_mr: fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
    ibv_dereg_mr: fn(*mut ibv_mr) -> c_int;
    ibv_create_comp_channel: fn(*mut ibv_context) -> *mut ibv_comp_channel;
    ibv_destroy_comp_channel: fn(*mut ibv_comp_channel) -> c_int;
    ibv_create_cq:
        fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
    ibv_destroy_cq: fn(*mut ibv_cq) -> c_int;
    ibv_get_cq_event: fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
    ibv_ack_cq_events: fn(*mut ibv_cq, c_uint) -> ();
    ibv_create_qp: fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    ibv_modify_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    ibv_query_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int;
    ibv_destroy_qp: fn(*mut ibv_qp) -> c_int;
}

impl Library {
    /// Loads it and looks everything up.
    pub(super) fn load() -> Result<Arc<Library>, VerbsError> {
        let missing =
            |error: libloading::Error| VerbsError::LibraryMissing { detail: error.to_string() };
        // SAFETY: the initialisers of libibverbs set up locks of their own and nothing else.
        let loaded = unsafe { libloading::Library::new(LIBRARY) }.map_err(missing)?;
        Library::resolve(loaded).map(Arc::new).map_err(missing)
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(LIBRARY)
    }
}
