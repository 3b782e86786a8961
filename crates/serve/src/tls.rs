//! TLS on the connections of clients, by the library `rustls`. TLS is a feature of this crate. Without the feature no
//! [`TlsConfig`] can be made.
//!
//! One thread of a connection reads and others write, so a mutex guards the state of the protocol. No thread holds the
//! mutex while it waits for the network: the reading thread waits for bytes before it locks the mutex, and a writing
//! thread only takes the encrypted bytes under the mutex. It sends them under a second mutex, which keeps their order.
//! The reading thread never waits for the second mutex.

#[cfg(feature = "tls")]
pub use with_tls::TlsConfig;
#[cfg(feature = "tls")]
pub(crate) use with_tls::TlsSession;
#[cfg(not(feature = "tls"))]
pub use without_tls::TlsConfig;
#[cfg(not(feature = "tls"))]
pub(crate) use without_tls::TlsSession;

/// Error: TLS cannot be offered to clients.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A PEM file of a certificate or key cannot be read.
    #[error("{path}: this file must hold {expected_content}, but that cannot be read: {reason}")]
    File {
        /// Content that the file should have: a certificate or a private key, in PEM format.
        expected_content: &'static str,
        /// Path of the PEM file.
        path: String,
        /// Reason why the file cannot be read.
        reason: String,
    },
    /// Certificates and private key do not belong together, or cannot be used. The text states the reason.
    #[error(
        "the server's certificates and its key cannot be used together: {0}; give the private key of the first \
         certificate in --tls-certificate as --tls-key"
    )]
    Certificates(String),
    /// The file of authority certificates, with which client certificates are checked, contains none that can be used.
    #[error(
        "{path}: client certificates cannot be checked by the certificates in this file: {reason}; name the \
         certificate of the authority that signs client certificates by --tls-client-ca"
    )]
    ClientAuthority {
        /// Path of the PEM file.
        path: String,
        /// Reason why the certificates of the file cannot be used.
        reason: String,
    },
}

#[cfg(feature = "tls")]
mod with_tls {
    use std::io::{self, IoSlice, Read as _, Write as _};
    use std::path::Path;
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
    use std::time::Instant;

    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::server::WebPkiClientVerifier;
    use rustls::{RootCertStore, ServerConfig, ServerConnection};

    use super::TlsError;
    use crate::memory_budget::ReplyTimeAllowance;
    use crate::plain_socket::PlainSocket;

    /// Largest number of bytes that are encrypted at once, and that are read from the network at once.
    const TLS_PIECE_BYTES: usize = 16 << 10;

    /// TLS configuration of the server: its own certificate and, if clients have to show certificates, the authority
    /// that signs these.
    #[derive(Clone, Debug)]
    pub struct TlsConfig {
        /// Configuration of the TLS library.
        server_config: Arc<ServerConfig>,
        /// Whether clients have to show a certificate.
        requires_client_certificate: bool,
    }

    impl TlsConfig {
        /// Reads the TLS configuration from PEM files: the server's certificate chain and key. With `client_ca`, the
        /// certificate of an authority, clients have to show certificates that this authority signed.
        ///
        /// # Errors
        /// [`TlsError`]: files that are no PEM, a key of another certificate.
        pub fn from_files(
            certificate: &Path,
            key: &Path,
            client_ca: Option<&Path>,
        ) -> Result<Self, TlsError> {
            let chain = read_certificates(certificate)?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| unreadable_file_error(KEY_FILE_CONTENT, key, error))?;
            let unusable = |error: &dyn std::fmt::Display| TlsError::Certificates(error.to_string());
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
            let builder = builder.with_safe_default_protocol_versions().map_err(|error| unusable(&error))?;
            let builder = match client_ca {
                None => builder.with_no_client_auth(),
                Some(path) => {
                    let unusable = |error: &dyn std::fmt::Display| TlsError::ClientAuthority {
                        path: path.display().to_string(),
                        reason: error.to_string(),
                    };
                    let mut signers = RootCertStore::empty();
                    for signer in read_certificates(path)? {
                        signers.add(signer).map_err(|error| unusable(&error))?;
                    }
                    let verifier =
                        WebPkiClientVerifier::builder_with_provider(Arc::new(signers), provider).build();
                    builder.with_client_cert_verifier(verifier.map_err(|error| unusable(&error))?)
                }
            };
            let config = builder.with_single_cert(chain, key).map_err(|error| unusable(&error))?;
            Ok(Self { server_config: Arc::new(config), requires_client_certificate: client_ca.is_some() })
        }

        /// Whether clients have to authenticate themselves by a certificate.
        pub fn requires_client_certificate(&self) -> bool {
            self.requires_client_certificate
        }

        /// Performs the TLS handshake with a client, which must end before `deadline`, and returns the session.
        ///
        /// # Errors
        /// The client disconnects, takes too long, speaks no TLS, or shows no certificate that is wanted.
        pub(crate) fn accept(&self, stream: &PlainSocket, deadline: Instant) -> io::Result<TlsSession> {
            let state = ServerConnection::new(Arc::clone(&self.server_config)).map_err(io::Error::other)?;
            let session = TlsSession {
                state: Mutex::new(state),
                encrypted_input: Mutex::default(),
                send_lock: Mutex::new(()),
            };
            while session.lock_tls_connection().is_handshaking() {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                stream.set_read_timeout(Some(left))?;
                session.send_pending_tls_messages(stream)?;
                if session.lock_tls_connection().is_handshaking() && session.receive_and_decrypt(stream)? == 0
                {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            session.send_pending_tls_messages(stream)?;
            Ok(session)
        }
    }

    /// Content that the file of a certificate must have, for error messages.
    const CERTIFICATE_FILE_CONTENT: &str = "a certificate in PEM format";
    /// Content that the file of a private key must have, for error messages.
    const KEY_FILE_CONTENT: &str = "a private key in PEM format without a passphrase (`openssl pkey -in OLD -out NEW` \
                                    removes one)";

    /// Reads all certificates in the PEM file `path`, of which there must be at least one.
    fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        match read {
            Ok(certificates) if certificates.is_empty() => {
                Err(unreadable_file_error(CERTIFICATE_FILE_CONTENT, path, "there is no certificate in it"))
            }
            read => read.map_err(|error| unreadable_file_error(CERTIFICATE_FILE_CONTENT, path, error)),
        }
    }

    /// Makes the error for a PEM file that cannot be read or lacks the expected content.
    fn unreadable_file_error(
        expected_content: &'static str,
        path: &Path,
        reason: impl std::fmt::Display,
    ) -> TlsError {
        TlsError::File { expected_content, path: path.display().to_string(), reason: reason.to_string() }
    }

    /// TLS session: the state of the encrypted connection with one client.
    #[derive(Debug)]
    pub(crate) struct TlsSession {
        /// State of the TLS protocol.
        state: Mutex<ServerConnection>,
        /// Encrypted bytes that were received but not decrypted yet.
        encrypted_input: Mutex<Vec<u8>>,
        /// Lock that a thread holds while it sends bytes, so that encrypted bytes are sent in order.
        send_lock: Mutex<()>,
    }

    impl TlsSession {
        /// Locks the state of the TLS protocol, also if a thread panicked while it held the lock.
        fn lock_tls_connection(&self) -> MutexGuard<'_, ServerConnection> {
            self.state.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Reads and decrypts bytes into `into`, and returns their number; 0 when the client has ended the connection.
        pub(crate) fn read(&self, stream: &PlainSocket, into: &mut [u8]) -> io::Result<usize> {
            loop {
                match self.lock_tls_connection().reader().read(into) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    // A connection that was cut is over as well.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                    read => return read,
                }
                if self.receive_and_decrypt(stream)? == 0 {
                    return Ok(0);
                }
                self.send_tls_messages_if_idle(stream)?;
            }
        }

        /// Sends the answers of the TLS protocol to received bytes, unless another thread is sending. That thread may
        /// be blocked until the client reads, and the client may read only after it has sent more. So this thread does
        /// not wait for it. The answers are then sent together with the next data.
        fn send_tls_messages_if_idle(&self, stream: &PlainSocket) -> io::Result<()> {
            if !self.lock_tls_connection().wants_write() {
                return Ok(());
            }
            match self.send_lock.try_lock() {
                Ok(_sending) => self.send_ready_encrypted_bytes(stream),
                Err(_) => Ok(()),
            }
        }

        /// Receives encrypted bytes, if no earlier ones are left, and decrypts a part of them. Returns the number of
        /// encrypted bytes processed; 0 when the connection has ended.
        fn receive_and_decrypt(&self, stream: &PlainSocket) -> io::Result<usize> {
            let mut received = self.encrypted_input.lock().unwrap_or_else(PoisonError::into_inner);
            if received.is_empty() {
                let mut piece = [0; TLS_PIECE_BYTES];
                let count = { stream }.read(&mut piece)?;
                received.extend(&piece[..count]);
            }
            let mut state = self.lock_tls_connection();
            let taken = state.read_tls(&mut &received[..])?;
            received.drain(..taken);
            if let Err(error) = state.process_new_packets() {
                drop(state);
                // The client is told why, if it listens.
                let _ = self.send_pending_tls_messages(stream);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
            Ok(taken)
        }

        /// Encrypts all of `bytes` and sends them.
        pub(crate) fn write_all(&self, stream: &PlainSocket, bytes: &[u8]) -> io::Result<()> {
            self.write_in_pieces(bytes, |encrypted| { stream }.write_all(encrypted))
        }

        /// Encrypts all of `bytes` and sends them. Fails if the client's deadline in `allowance` passes before.
        pub(crate) fn write_all_before_timeout(
            &self,
            stream: &PlainSocket,
            bytes: &[u8],
            allowance: &mut ReplyTimeAllowance,
        ) -> io::Result<()> {
            self.write_in_pieces(bytes, |encrypted| {
                stream.send_all_before_timeout(&mut [IoSlice::new(encrypted)], allowance)
            })
        }

        /// Encrypts `bytes` in pieces of 16 KiB, and passes each encrypted piece to `send`, in order.
        fn write_in_pieces(
            &self,
            bytes: &[u8],
            mut send: impl FnMut(&[u8]) -> io::Result<()>,
        ) -> io::Result<()> {
            for piece in bytes.chunks(TLS_PIECE_BYTES) {
                let _sending = self.send_lock.lock().unwrap_or_else(PoisonError::into_inner);
                self.lock_tls_connection().writer().write_all(piece)?;
                send(&self.take_ready_encrypted_bytes()?)?;
            }
            Ok(())
        }

        /// Sends the client the TLS message that ends the data (`close_notify`).
        pub(crate) fn send_tls_close(&self, stream: &PlainSocket) {
            self.lock_tls_connection().send_close_notify();
            // The client may be gone.
            let _ = self.send_pending_tls_messages(stream);
        }

        /// Sends the bytes that the TLS protocol produced by itself, such as handshake messages.
        fn send_pending_tls_messages(&self, stream: &PlainSocket) -> io::Result<()> {
            let _sending = self.send_lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.send_ready_encrypted_bytes(stream)
        }

        /// Sends all encrypted bytes that are ready to be sent. The caller holds the lock that keeps their order.
        fn send_ready_encrypted_bytes(&self, stream: &PlainSocket) -> io::Result<()> {
            { stream }.write_all(&self.take_ready_encrypted_bytes()?)
        }

        /// Returns the encrypted bytes that are ready to be sent, and removes them from the TLS state.
        fn take_ready_encrypted_bytes(&self) -> io::Result<Vec<u8>> {
            let mut encrypted = Vec::new();
            let mut state = self.lock_tls_connection();
            while state.wants_write() {
                state.write_tls(&mut encrypted)?;
            }
            Ok(encrypted)
        }
    }
}

#[cfg(not(feature = "tls"))]
mod without_tls {
    use std::io;
    use std::time::Instant;

    use crate::memory_budget::ReplyTimeAllowance;
    use crate::plain_socket::PlainSocket;

    /// TLS configuration of the server. The type has no value in this build, which has no TLS.
    #[derive(Clone, Debug)]
    pub enum TlsConfig {}

    impl TlsConfig {
        /// Whether clients have to authenticate by a certificate.
        pub fn requires_client_certificate(&self) -> bool {
            match *self {}
        }

        pub(crate) fn accept(&self, _: &PlainSocket, _: Instant) -> io::Result<TlsSession> {
            match *self {}
        }
    }

    /// TLS session with a client. The type has no value in this build, which has no TLS.
    #[derive(Debug)]
    pub(crate) enum TlsSession {}

    impl TlsSession {
        pub(crate) fn read(&self, _: &PlainSocket, _: &mut [u8]) -> io::Result<usize> {
            match *self {}
        }

        pub(crate) fn write_all(&self, _: &PlainSocket, _: &[u8]) -> io::Result<()> {
            match *self {}
        }

        pub(crate) fn write_all_before_timeout(
            &self,
            _: &PlainSocket,
            _: &[u8],
            _: &mut ReplyTimeAllowance,
        ) -> io::Result<()> {
            match *self {}
        }

        pub(crate) fn send_tls_close(&self, _: &PlainSocket) {
            match *self {}
        }
    }
}
