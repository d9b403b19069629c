import COpenSSL
import StorePlatform
import Synchronization

/// The heap for secrets: locked in memory, kept out of core dumps, between guard pages; one for each process.
///
/// If the limit on locked memory (RLIMIT_MEMLOCK) is too low, secrets are in ordinary memory, and are wiped as well.
///
/// libcrypto has such a heap too, but a library cannot use it: there is one for the whole program, and once it is set
/// up, libcrypto allocates the memory of Argon2id (16 MiB and more) only there, and fails when the heap is smaller.
/// <https://docs.openssl.org/3.5/man3/OPENSSL_secure_malloc/>
struct SecureHeap: ~Copyable, Sendable {
    /// Sizes to try, largest first; 32 KiB fits below the 64 KiB limit of older systems.
    private static let heapBytes = [1 << 20, 1 << 18, 1 << 15]
    /// Allocations begin at a multiple of this; a 32-byte key takes two blocks.
    private static let blockBytes = 16

    private static let shared: SecureHeap? = {
        _ = CryptoLibrary.livesUntilTheEnd
        return heapBytes.lazy.compactMap { LockedPages(byteCount: $0) }.first.map { SecureHeap($0) }
    }()

    /// Whether the heap exists, which means that the kernel has locked it.
    static var isLocked: Bool { shared != nil }

    /// Allocates `count` bytes for a secret, in the locked heap while it has space.
    static func allocate(_ count: Int) -> UnsafeMutableRawPointer {
        let bytes = max(count, 1)
        if let locked = shared?.allocate(bytes) { return locked }
        guard let ordinary = copenssl_allocate(bytes) else { preconditionFailure("out of memory") }
        return ordinary
    }

    /// Wipes and frees memory of ``allocate(_:)`` of the same length.
    static func wipeAndFree(_ address: UnsafeMutableRawPointer, _ count: Int) {
        let bytes = max(count, 1)
        if shared?.wipeAndFree(address, bytes) == true { return }
        copenssl_wipe_and_free(address, bytes)
    }

    private let pages: LockedPages
    private let free: Mutex<FreeBlocks>

    init(_ pages: LockedPages) {
        self.pages = pages
        free = Mutex(FreeBlocks(count: pages.byteCount / Self.blockBytes))
    }

    /// - Returns: nil when there is not enough space.
    func allocate(_ bytes: Int) -> UnsafeMutableRawPointer? {
        let blocks = free.withLock { $0.take(Self.blocks(for: bytes)) }
        return blocks.map { pages.start + $0.lowerBound * Self.blockBytes }
    }

    /// - Returns: Whether the bytes belong to this heap; otherwise nothing was done.
    func wipeAndFree(_ address: UnsafeMutableRawPointer, _ bytes: Int) -> Bool {
        guard address >= pages.start, address < pages.start + pages.byteCount else { return false }
        OPENSSL_cleanse(address, bytes)
        let first = (address - pages.start) / Self.blockBytes
        free.withLock { $0.free(first..<first + Self.blocks(for: bytes)) }
        return true
    }

    private static func blocks(for bytes: Int) -> Int { (bytes - 1) / blockBytes + 1 }
}
