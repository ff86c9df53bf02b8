//! Redis: each entry is a string with an expiry that renewals extend. Invariant: a connection is
//! used by one call at a time and given up after any failure on it; no call waits for another.

use super::backend::{EntryClaim, EntryState, MetadataBackend, PublishedEntry};
use crate::address::{resolve, share};
use crate::settings::DiscoverySettings;
use redis::{Client, Connection, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _};
use redis::{ErrorKind, FromRedisValue, RedisConnectionInfo, RedisError, cmd};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Replaces a value if it is still the one that was seen, in one step of the server.
const REPLACE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) return 1 end return 0";

pub(super) struct Redis {
    host: String,
    port: u16,
    login: RedisConnectionInfo,
    life: Duration,
    limit: Duration,
    /// The one kept for the next call.
    idle: Mutex<Option<Connection>>,
}

impl fmt::Debug for Redis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Redis({}:{})", self.host, self.port)
    }
}

impl Redis {
    /// The server of a `redis://` URL. `None` = it is no such URL.
    pub(super) fn new(url: &str, settings: &DiscoverySettings) -> Option<Self> {
        let info: ConnectionInfo = url.into_connection_info().ok()?;
        let ConnectionAddr::Tcp(host, port) = info.addr() else {
            return None;
        };
        Some(Self {
            host: host.clone(),
            port: *port,
            login: login(info.redis_settings(), settings),
            life: settings.entry_life,
            limit: settings.call_deadline,
            idle: Mutex::default(),
        })
    }

    fn connect(&self, deadline: Instant) -> Result<Connection, String> {
        let addresses = resolve(&self.host, self.port, deadline)?;
        let mut failure = String::from("its name has no address");
        for (index, address) in addresses.iter().enumerate() {
            let time = share(deadline, addresses.len() - index);
            if time.is_zero() {
                return Err(self.silence());
            }
            let address = ConnectionAddr::Tcp(address.ip().to_string(), address.port());
            let info = address
                .into_connection_info()
                .map_err(|error| error.to_string())?
                .set_redis_settings(self.login.clone());
            match Client::open(info).and_then(|client| client.get_connection_with_timeout(time)) {
                Ok(connection) => return Ok(connection),
                Err(error) => failure = self.words(&error),
            }
        }
        Err(failure)
    }

    /// One command. A connection that turns out to be broken is replaced once: the server may
    /// have closed it long ago.
    fn ask<T: FromRedisValue>(&self, command: &redis::Cmd, until: Instant) -> Result<T, String> {
        let kept = self.slot().take();
        if let Some(mut connection) = kept {
            match self.query(&mut connection, command, until) {
                Ok(answer) => {
                    *self.slot() = Some(connection);
                    return Ok(answer);
                }
                Err(error) if error.is_io_error() && !error.is_timeout() => {}
                Err(error) => return Err(self.words(&error)),
            }
        }
        let mut connection = self.connect(until)?;
        let answer =
            self.query(&mut connection, command, until).map_err(|error| self.words(&error))?;
        *self.slot() = Some(connection);
        Ok(answer)
    }

    fn slot(&self) -> MutexGuard<'_, Option<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn query<T: FromRedisValue>(
        &self,
        connection: &mut Connection,
        command: &redis::Cmd,
        deadline: Instant,
    ) -> Result<T, RedisError> {
        // A time of zero would mean to wait forever.
        let left = share(deadline, 1).max(Duration::from_millis(1));
        connection.set_read_timeout(Some(left))?;
        connection.set_write_timeout(Some(left))?;
        command.query(connection)
    }

    fn silence(&self) -> String {
        format!("it did not answer within {:.1?}", self.limit)
    }

    fn words(&self, error: &RedisError) -> String {
        if error.is_timeout() {
            return self.silence();
        }
        let login = error.kind() == ErrorKind::AuthenticationFailed
            || matches!(error.code(), Some("NOAUTH" | "WRONGPASS"));
        if login {
            return format!("{error}; check MC_REDIS_USERNAME and MC_REDIS_PASSWORD");
        }
        error.to_string()
    }

    /// Writes a value if there is none; false = there is.
    fn put_absent(&self, key: &str, value: &str, until: Instant) -> Result<bool, String> {
        let mut command = cmd("SET");
        command.arg(key).arg(value).arg("NX");
        let set: Option<String> = self.ask(command.arg("PX").arg(self.life_ms()), until)?;
        Ok(set.is_some())
    }

    fn life_ms(&self) -> u64 {
        u64::try_from(self.life.as_millis()).unwrap_or(u64::MAX)
    }
}

impl MetadataBackend for Redis {
    fn get(&self, key: &str, until: Instant) -> Result<Option<Vec<u8>>, String> {
        self.ask(cmd("GET").arg(key), until)
    }

    fn put(&self, key: &str, value: &str, until: Instant) -> Result<(), String> {
        let mut command = cmd("SET");
        command.arg(key).arg(value).arg("PX").arg(self.life_ms());
        self.ask(&command, until)
    }

    fn claim(&self, claim: &EntryClaim<'_>, until: Instant) -> Result<bool, String> {
        let EntryClaim { key, value, seen } = *claim;
        let Some(seen) = seen else {
            return self.put_absent(key, value, until);
        };
        let mut command = cmd("EVAL");
        command.arg(REPLACE).arg(1).arg(key);
        command.arg(seen).arg(value).arg(self.life_ms());
        self.ask(&command, until)
    }

    fn refresh(&self, entry: &PublishedEntry, until: Instant) -> Result<EntryState, String> {
        if let Some(stored) = self.get(&entry.key, until)? {
            if !entry.wrote(&stored) {
                return Ok(EntryState::Lost);
            }
            let mut command = cmd("PEXPIRE");
            command.arg(&entry.key).arg(self.life_ms());
            if self.ask(&command, until)? {
                return Ok(EntryState::Kept);
            }
        }
        let written = self.put_absent(&entry.key, &entry.value, until)?;
        Ok(if written { EntryState::Restored } else { EntryState::Lost })
    }

    fn remove(&self, entry: &PublishedEntry, until: Instant) -> Result<(), String> {
        match self.get(&entry.key, until)? {
            Some(stored) if entry.wrote(&stored) => self.ask(cmd("DEL").arg(&entry.key), until),
            _ => Ok(()),
        }
    }
}

/// What the URL says, and the settings where it says nothing.
fn login(url: &RedisConnectionInfo, settings: &DiscoverySettings) -> RedisConnectionInfo {
    let mut login = RedisConnectionInfo::default().set_skip_set_lib_name();
    let username = url.username().unwrap_or(&settings.redis_username);
    if !username.is_empty() {
        login = login.set_username(username);
    }
    let password = url.password().unwrap_or(settings.redis_password.reveal());
    if !password.is_empty() {
        login = login.set_password(password);
    }
    match url.db() {
        0 => login.set_db(i64::from(settings.redis_database)),
        chosen => login.set_db(chosen),
    }
}
