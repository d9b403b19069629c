import COpenSSL

/// libcrypto's heap for secrets: locked in memory, kept out of core dumps, between guard pages.
///
/// The heap is one for each process. Where the limit on locked memory (RLIMIT_MEMLOCK) leaves no room, secrets live
/// in ordinary memory and are wiped all the same.
/// - SeeAlso: <https://docs.openssl.org/3.0/man3/OPENSSL_secure_malloc/>
enum SecureHeap {
    /// Sizes to ask for, largest first: 1 MiB, and what fits below the 64 KiB limit of older systems.
    private static let heapBytes = [1 << 20, 1 << 18, 1 << 15]
    /// The smallest block of the heap; a 32-byte key takes two.
    private static let blockBytes = 16

    /// Whether the heap exists and the kernel has locked it.
    static let isLocked: Bool = {
        _ = CryptoLibrary.livesUntilTheEnd
        // Somebody in this process set it up before us; how, the library does not tell.
        if CRYPTO_secure_malloc_initialized() == 1 { return true }
        for bytes in heapBytes {
            // 1: locked and guarded. 2: usable, but a protection was refused. 0: nothing allocated.
            switch CRYPTO_secure_malloc_init(bytes, blockBytes) {
            case 1: return true
            case 2: _ = CRYPTO_secure_malloc_done()
            default: break
            }
        }
        return false
    }()

    /// Allocates `count` bytes for a secret, in the locked heap while it has room.
    static func allocate(_ count: Int) -> UnsafeMutableRawPointer {
        let bytes = max(count, 1)
        if isLocked, let locked = copenssl_secure_allocate(bytes) { return locked }
        ERR_clear_error()
        guard let ordinary = copenssl_allocate(bytes) else { preconditionFailure("out of memory") }
        return ordinary
    }

    /// Wipes and frees what ``allocate(_:)`` returned.
    static func wipeAndFree(_ address: UnsafeMutableRawPointer, _ count: Int) {
        copenssl_wipe_and_free(address, max(count, 1))
    }
}
