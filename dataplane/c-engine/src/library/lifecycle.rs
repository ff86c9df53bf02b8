//! Engines begin, get transports, and end.

use crate::failure::{answer, answer_or};
use crate::handle::{ENGINES, NativeEngine, with};
use crate::signals;
use perigee_c::{Handle, array, guarded, text};
use perigee_engine::EngineError;
use perigee_settings::Protocols;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Once;

/// What a transport is known by: an address that means nothing else.
static TRANSPORT: u8 = 0;

static LEAVING: Once = Once::new();

extern "C" fn end_engines() {
    guarded("exit", (), || ENGINES.free_all());
}

/// Starts an engine; null if it cannot be started.
///
/// # Safety
/// Texts are null or end with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn createTransferEngine(
    metadata_conn_string: *const c_char,
    local_server_name: *const c_char,
    _ip_or_host_name: *const c_char,
    _rpc_port: u64,
    auto_discover: c_int,
) -> Handle {
    answer_or("createTransferEngine", ptr::null_mut(), || {
        // SAFETY: the caller's texts end.
        let (metadata, name) = unsafe {
            (
                text("metadata_conn_string", metadata_conn_string)?,
                text("local_server_name", local_server_name)?,
            )
        };
        let engine = NativeEngine::start(metadata, name, auto_discover != 0)?;
        let handle = ENGINES.insert(engine);
        LEAVING.call_once(|| ENGINES.at_exit(end_engines));
        Ok(handle)
    })
}

/// Ends an engine: batches in flight fail, ports close, its name is withdrawn.
#[unsafe(no_mangle)]
pub extern "C" fn destroyTransferEngine(engine: Handle) {
    answer_or("destroyTransferEngine", (), || Ok(ENGINES.free(engine)?));
}

/// Answers 0: NICs are looked up when an engine starts.
#[unsafe(no_mangle)]
pub extern "C" fn discoverTopology(engine: Handle) -> c_int {
    answer("discoverTopology", || with(engine, |_| Ok(0)))
}

/// Has an engine speak `tcp` or `rdma`; a token, or null.
///
/// # Safety
/// Texts end with 0; `args` is null or has one entry, which is null or the text of a matrix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn installTransport(
    engine: Handle,
    proto: *const c_char,
    args: *mut *mut c_void,
) -> *mut c_void {
    answer_or("installTransport", ptr::null_mut(), || {
        with(engine, |engine| {
            // SAFETY: the caller's promise.
            let (protocol, matrix) = unsafe {
                let matrix = match array("args", args, usize::from(!args.is_null()))? {
                    [matrix, ..] if !matrix.is_null() => {
                        Some(text("args[0]", matrix.cast_const().cast::<c_char>())?)
                    }
                    _ => None,
                };
                (text("proto", proto)?, matrix)
            };
            engine.install(protocol, matrix)?;
            Ok((&raw const TRANSPORT).cast_mut().cast::<c_void>())
        })
    })
}

/// Answers 0: transports end with their engine.
///
/// # Safety
/// `proto` is null or ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uninstallTransport(engine: Handle, proto: *const c_char) -> c_int {
    answer("uninstallTransport", || {
        with(engine, |_| {
            // SAFETY: the caller's text ends.
            Protocols::parse(unsafe { text("proto", proto) }?)?;
            Ok(0)
        })
    })
}

/// Ends engines on SIGINT and SIGTERM from now on.
#[unsafe(no_mangle)]
pub extern "C" fn enableGracefulShutdown(engine: Handle) {
    answer_or("enableGracefulShutdown", (), || {
        with(engine, |_| {
            Ok(signals::install().map_err(|error| EngineError::Start(error.to_string()))?)
        })
    });
}

/// Writes `host:port` of an engine's handshake.
///
/// # Safety
/// `buf_out` is null or has `buf_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getLocalIpAndPort(
    engine: Handle,
    buf_out: *mut c_char,
    buf_len: usize,
) -> c_int {
    answer("getLocalIpAndPort", || {
        with(engine, |engine| {
            let address = engine.engine().address();
            // SAFETY: the caller's promise.
            unsafe { perigee_c::write_text("buf_out", buf_out, buf_len, &address) }?;
            Ok(0)
        })
    })
}
