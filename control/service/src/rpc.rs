//! The RPC port of one shard: connections, calls, answers.

mod codec;
mod connection;
mod dispatch;
mod key_calls;
mod limits;
mod move_calls;
mod segment_calls;
mod set_calls;
mod task_calls;
mod wanted;

use crate::cluster::ControlShard;
use limits::CONNECTIONS_PER_SHARD_MAX;
use perigee_shard::{
    ACCEPT_PAUSE, Admission, Admitted, Environment, Listener, ShardEnvironment, Stream,
};
use std::rc::Rc;
use std::time::Duration;

type ShardListener = <ShardEnvironment as Environment>::Listener;
type ShardStream = <ShardEnvironment as Environment>::Stream;

/// Pause between looks at draining connections.
const PAUSE: Duration = Duration::from_millis(5);

/// Accepts until the shard stops, then waits for the last connection.
pub(crate) async fn serve(
    environment: &ShardEnvironment,
    listener: &Rc<ShardListener>,
    shard: &Rc<ControlShard>,
    idle: Option<Duration>,
) {
    let closer = (shard.clone(), listener.clone(), environment.clone());
    environment.spawn(async move {
        let (shard, listener, environment) = closer;
        while !shard.is_stopping() {
            environment.sleep(Duration::from_millis(20)).await;
        }
        listener.close();
    });
    accept(environment, listener, shard, idle).await;
    while shard.connection_count() > 0 {
        environment.sleep(PAUSE).await;
    }
}

async fn accept(
    environment: &ShardEnvironment,
    listener: &ShardListener,
    shard: &Rc<ControlShard>,
    idle: Option<Duration>,
) {
    let admission = Admission::new(CONNECTIONS_PER_SHARD_MAX);
    while !shard.is_stopping() {
        match listener.accept().await {
            // A client whose connection was broken comes again at once.
            Ok(stream) if shard.is_stopping() => stream.shutdown(),
            Ok(stream) => {
                let open = shard.connection_count();
                match admission.admit(&stream, open, environment.now()) {
                    Some(admitted) => adopt(environment, (stream, admitted), shard, idle),
                    None => {
                        shard.cells.connections_refused.add(1);
                        stream.shutdown();
                    }
                }
            }
            Err(error) if !shard.is_stopping() => {
                admission.failed(&error, environment.now());
                environment.sleep(ACCEPT_PAUSE).await;
            }
            Err(_) => {}
        }
    }
}

fn adopt(
    environment: &ShardEnvironment,
    (stream, admitted): (ShardStream, Admitted),
    shard: &Rc<ControlShard>,
    idle: Option<Duration>,
) {
    let number = shard.enter(&stream);
    let shard = shard.clone();
    let theirs = environment.clone();
    environment.spawn(async move {
        if let Err(error) = connection::serve(&theirs, &stream, &shard, idle).await {
            tracing::debug!(%error, "A connection ended");
        }
        stream.shutdown();
        shard.depart(number);
        drop(admitted);
    });
}
