import COpenSSL

/// libcrypto as a part of this process.
package enum CryptoLibrary {
    /// Lets libcrypto live as long as the process; asked for before anything else of it is used.
    ///
    /// By itself it frees what it works with when the process calls `exit`, while other threads go on: a store that opens
    /// its connections anew at that moment, behind a rotation, would crash in it. A program that has used libcrypto before
    /// has decided that already.
    package static let livesUntilTheEnd = OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil) == 1
}
