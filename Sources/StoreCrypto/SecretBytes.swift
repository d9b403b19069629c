import COpenSSL

/// Secret bytes in locked memory: the one owner of every secret, shared by reference.
///
/// They are wiped when the last reference is released. Their description contains nothing, not even their number. They
/// are compared in constant time.
// Safe because: the memory is written only while the object is made.
package final class SecretBytes: @unchecked Sendable {
    private let address: UnsafeMutableRawPointer
    /// The number of bytes.
    package let count: Int

    /// Makes a secret of `count` bytes, zero at first, that `body` fills in place.
    package init(count: Int, initializingWith body: (UnsafeMutableRawBufferPointer) throws -> Void) rethrows {
        let address = SecureHeap.allocate(count)
        let buffer = UnsafeMutableRawBufferPointer(start: address, count: count)
        buffer.initializeMemory(as: UInt8.self, repeating: 0)
        do {
            try body(buffer)
        } catch {
            SecureHeap.wipeAndFree(address, count)
            throw error
        }
        self.address = address
        self.count = count
    }

    /// Copies a secret from ordinary memory; the caller wipes that memory.
    package convenience init(copying bytes: UnsafeRawBufferPointer) {
        self.init(count: bytes.count) { $0.copyMemory(from: bytes) }
    }

    /// Copies a secret from any collection, byte by byte without a temporary copy.
    package convenience init(copying bytes: some Collection<UInt8>) {
        self.init(count: bytes.count) { $0.copyBytes(from: bytes) }
    }

    deinit { SecureHeap.wipeAndFree(address, count) }

    /// Makes a random secret from the generator that libcrypto keeps for private values.
    package static func random(count: Int) throws(CryptoError) -> SecretBytes {
        var succeeded = false
        let secret = SecretBytes(count: count) { buffer in
            succeeded = count == 0 || RAND_priv_bytes(buffer.bytes, Int32(clamping: count)) == 1
        }
        try CryptoError.check(succeeded, "RAND_priv_bytes")
        return secret
    }

    /// Whether secrets are in memory that the kernel keeps off swap and out of core dumps.
    static var memoryIsLocked: Bool { SecureHeap.isLocked }

    /// Passes the bytes to `body`; the pointer must not outlive the call.
    package func withBytes<R: ~Copyable, E: Error>(
        _ body: (UnsafeRawBufferPointer) throws(E) -> R
    ) throws(E) -> R {
        // Without this the last reference could end as soon as the address is read, which would wipe the bytes in use.
        defer { withExtendedLifetime(self) {} }
        return try body(UnsafeRawBufferPointer(start: address, count: count))
    }

    /// Compares in constant time; lengths are not secret.
    package func isEqual(to other: SecretBytes) -> Bool {
        withBytes { mine in
            other.withBytes { mine.count == $0.count && CRYPTO_memcmp(mine.baseAddress, $0.baseAddress, $0.count) == 0 }
        }
    }
}

extension SecretBytes: CustomStringConvertible, CustomReflectable {
    package var description: String { "SecretBytes" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

extension UnsafeRawBufferPointer {
    /// The buffer in the form that C functions on octets expect.
    var bytes: UnsafePointer<UInt8>? { baseAddress?.assumingMemoryBound(to: UInt8.self) }
}

extension UnsafeMutableRawBufferPointer {
    /// The buffer in the form that C functions on octets expect.
    var bytes: UnsafeMutablePointer<UInt8>? { baseAddress?.assumingMemoryBound(to: UInt8.self) }
}
