import COpenSSL

/// A call into libcrypto that failed: out of memory, a refused algorithm, no entropy.
///
/// It names the call and the library's reason, never keys, salts or messages.
public struct CryptoError: Error, Hashable, Sendable {
    /// The call that failed, for example `PKCS5_PBKDF2_HMAC`.
    public let operation: String
    /// The reason, from the library or from the check before the call.
    public let reason: String
    /// Whether memory could not be allocated.
    package let isOutOfMemory: Bool

    package init(_ operation: String, reason: String, isOutOfMemory: Bool = false) {
        self.operation = operation
        self.reason = reason
        self.isOutOfMemory = isOutOfMemory
    }

    /// Reads the reason from the error queue of this thread, and empties the queue.
    static func last(_ operation: String) -> CryptoError {
        let code = ERR_peek_last_error()
        // Only the reason: the data that a call may attach to an error must not be printed.
        let reason = ERR_reason_error_string(code).map { String(cString: $0) }
        ERR_clear_error()
        return CryptoError(
            operation, reason: reason ?? "no reason given by libcrypto",
            isOutOfMemory: copenssl_is_out_of_memory(code) != 0)
    }

    /// Throws the library's error unless `succeeded`.
    static func check(_ succeeded: Bool, _ operation: String) throws(CryptoError) {
        if !succeeded { throw last(operation) }
    }
}

extension CryptoError: CustomStringConvertible {
    public var description: String { "cryptography failed in \(operation): \(reason)" }
}
