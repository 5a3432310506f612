//! A connection that is made once and not again.
//!
//! The driver would make a new one by itself when one breaks. Here a new connection is a new
//! beginning: what answers on it may be another state of the cluster, and is judged first.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tonic::codegen::http::Uri;
use tonic::codegen::{Service, StdError};

/// What is said of a connection that was lost before something was sent on it.
pub(super) const GONE: &str = "the connection was lost before";

/// An endpoint that is there takes a connection in less, however busy it is: its kernel does that.
const CONNECT: Duration = Duration::from_secs(1);

/// For how long the other end's kernel may leave what was sent without a sign. So a connection
/// whose packets are lost breaks within one call, and one to an endpoint that is merely slow does
/// not.
const UNHEARD: Duration = Duration::from_millis(1_500);

type Connecting = Pin<Box<dyn Future<Output = Result<TokioIo<TcpStream>, StdError>> + Send>>;

/// Connects one time.
pub(super) fn connector()
-> impl Service<Uri, Response = TokioIo<TcpStream>, Error = StdError, Future = Connecting> + Send {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT));
    http.set_tcp_user_timeout(Some(UNHEARD));
    // Finds out that the other end is gone while nothing is asked.
    http.set_keepalive(Some(Duration::from_secs(10)));
    http.set_keepalive_interval(Some(Duration::from_secs(5)));
    http.set_keepalive_retries(Some(3));
    let mut unused = Some(http);
    tower::service_fn(move |uri: Uri| -> Connecting {
        match unused.take() {
            Some(mut http) => {
                let connecting = http.call(uri);
                Box::pin(async { connecting.await.map_err(StdError::from) })
            }
            None => Box::pin(async { Err(StdError::from(GONE)) }),
        }
    })
}
