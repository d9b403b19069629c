import COpenSSL

/// Secret bytes in locked memory that are wiped when the value goes away.
///
/// The value cannot be copied by accident, has no accessible representation as text, and compares in constant time.
// Safe because: the memory is written only while the value is made and has one owner.
public struct SecretBytes: ~Copyable, @unchecked Sendable {
    private let address: UnsafeMutableRawPointer
    /// How many bytes the secret has.
    public let count: Int

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

    /// Copies a secret that lies in ordinary memory; wiping that memory stays with the caller.
    package init(copying bytes: UnsafeRawBufferPointer) {
        self.init(count: bytes.count) { $0.copyMemory(from: bytes) }
    }

    /// Copies a secret from any collection, byte by byte without a temporary copy.
    package init(copying bytes: some Collection<UInt8>) {
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

    /// Whether secrets lie in memory that the kernel keeps off swap and out of core dumps.
    package static var memoryIsLocked: Bool { SecureHeap.isLocked }

    /// Lends the bytes to `body`; the pointer must not outlive the call.
    package borrowing func withBytes<R: ~Copyable, E: Error>(
        _ body: (UnsafeRawBufferPointer) throws(E) -> R
    ) throws(E) -> R {
        try body(UnsafeRawBufferPointer(start: address, count: count))
    }

    /// Makes a second secret of the same bytes.
    package borrowing func copy() -> SecretBytes {
        SecretBytes(copying: UnsafeRawBufferPointer(start: address, count: count))
    }

    /// Compares in a time that does not depend on the bytes; lengths are not secret.
    package borrowing func isEqual(to other: borrowing SecretBytes) -> Bool {
        count == other.count && CRYPTO_memcmp(address, other.address, count) == 0
    }
}

extension UnsafeRawBufferPointer {
    /// The buffer as C functions on octets take it.
    var bytes: UnsafePointer<UInt8>? { baseAddress?.assumingMemoryBound(to: UInt8.self) }
}

extension UnsafeMutableRawBufferPointer {
    /// The buffer as C functions on octets take it.
    var bytes: UnsafeMutablePointer<UInt8>? { baseAddress?.assumingMemoryBound(to: UInt8.self) }
}
