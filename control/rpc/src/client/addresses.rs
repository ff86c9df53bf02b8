//! The call about addresses of clients.

use super::{Builder, MasterClient};
use crate::error::CallError;
use crate::reply::statuses;
use perigee_schemas::frame::MessageKind;
use perigee_schemas::message::decode;
use perigee_schemas::{Identity, Status, master};

impl MasterClient {
    /// Addresses of the segments of each client, or why there are none.
    ///
    /// # Errors
    /// No answer in time.
    pub fn query_addresses(
        &self,
        clients: &[Identity],
    ) -> Result<Vec<Result<Vec<String>, Status>>, CallError> {
        let encode = |builder: &mut Builder| {
            let high: Vec<u64> = clients.iter().map(|client| client.high()).collect();
            let low: Vec<u64> = clients.iter().map(|client| client.low()).collect();
            let args = master::QueryAddressesRequestArgs {
                client_high: Some(builder.create_vector(&high)),
                client_low: Some(builder.create_vector(&low)),
            };
            let root = master::QueryAddressesRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::QueryAddresses, true, encode, |body| {
            let reply = decode::<master::QueryAddressesReply<'_>>(body)?;
            let mut addresses = reply.addresses().into_iter().flatten().map(str::to_owned);
            let mut counts = reply.count().into_iter().flatten();
            let statuses = statuses(reply.status(), clients.len())?.into_iter();
            Ok(statuses
                .map(|status| {
                    let count = counts.next().unwrap_or_default() as usize;
                    let own: Vec<String> = addresses.by_ref().take(count).collect();
                    if status == Status::Ok { Ok(own) } else { Err(status) }
                })
                .collect())
        })
    }
}
