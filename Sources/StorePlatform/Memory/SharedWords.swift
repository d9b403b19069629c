import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A part of a file that is mapped into memory, for all processes that map it.
package final class SharedMapping: Sendable {
    /// The memory; it must not be used after the mapping is released.
    package let words: SharedWords
    private let byteCount: Int

    /// Maps a part of a file that is open for reading and writing. The part must exist on disk
    /// (``FileDescriptor/reserve(byteCount:)``).
    ///
    /// If another program truncates the file, the memory becomes zeros that this process shares with no other one
    /// (``isLost``). The first mapping installs a handler of SIGBUS for that; a program that installs one of its own
    /// later has to call the former one.
    package init(_ file: borrowing FileDescriptor, from offset: Int64, byteCount: Int) throws(SystemError) {
        var address: UnsafeMutableRawPointer?
        let failure = cplatform_map(file.number, offset, UInt64(byteCount), &address)
        guard failure == 0, let address else {
            throw SystemError(call: "mmap", path: file.path, errorNumber: failure)
        }
        words = SharedWords(address)
        self.byteCount = byteCount
    }

    /// Whether the file was truncated, and an access has found that.
    package var isLost: Bool { cplatform_map_is_lost(words.start) }

    deinit { cplatform_unmap(words.start, UInt64(byteCount)) }
}

/// Atomic words at offsets of memory that processes share. Offsets are multiples of a word's length.
///
/// All operations are sequentially consistent unless their names say otherwise: a protocol in which each of two sides
/// writes its own word and then reads the other's depends on it.
// Safe because: the memory is shared with other processes anyway, and is used by atomic operations alone.
package struct SharedWords: @unchecked Sendable {
    @usableFromInline let start: UnsafeMutableRawPointer

    @inlinable
    init(_ start: UnsafeMutableRawPointer) { self.start = start }

    /// The same memory from an offset on.
    @inlinable
    package func advanced(by offset: Int) -> SharedWords { SharedWords(start + offset) }

    // MARK: 32 bits

    @inlinable
    package func load32(_ offset: Int) -> UInt32 { cplatform_load32(start + offset) }

    @inlinable
    package func store32(_ offset: Int, _ value: UInt32) { cplatform_store32(start + offset, value) }

    /// Stores a value.
    ///
    /// - Returns: The former value.
    @inlinable
    package func exchange32(_ offset: Int, _ value: UInt32) -> UInt32 { cplatform_exchange32(start + offset, value) }

    /// Stores a value if the word has the expected one.
    ///
    /// - Returns: Whether it had.
    @inlinable
    package func replace32(_ offset: Int, _ expected: UInt32, with value: UInt32) -> Bool {
        cplatform_replace32(start + offset, expected, value)
    }

    /// Adds to the word.
    ///
    /// - Returns: The former value.
    @inlinable @discardableResult
    package func add32(_ offset: Int, _ value: UInt32) -> UInt32 { cplatform_add32(start + offset, value) }

    // MARK: 64 bits

    @inlinable
    package func load64(_ offset: Int) -> UInt64 { cplatform_load64(start + offset) }

    @inlinable
    package func store64(_ offset: Int, _ value: UInt64) { cplatform_store64(start + offset, value) }

    /// Stores a figure that other processes only display: no order is guaranteed.
    @inlinable
    package func storeRelaxed64(_ offset: Int, _ value: UInt64) { cplatform_store64_relaxed(start + offset, value) }

    /// Stores a value if the word has the expected one.
    ///
    /// - Returns: Whether it had.
    @inlinable
    package func replace64(_ offset: Int, _ expected: UInt64, with value: UInt64) -> Bool {
        cplatform_replace64(start + offset, expected, value)
    }

    /// Adds to the word.
    ///
    /// - Returns: The former value.
    @inlinable
    package func add64(_ offset: Int, _ value: UInt64) -> UInt64 { cplatform_add64(start + offset, value) }

    @inlinable
    package func setBits64(_ offset: Int, _ bits: UInt64) { cplatform_set_bits64(start + offset, bits) }

    @inlinable
    package func clearBits64(_ offset: Int, _ bits: UInt64) { cplatform_clear_bits64(start + offset, bits) }

    /// Whether any bit of `count` words is set.
    @inlinable
    package func hasBits64(_ offset: Int, words count: Int) -> Bool {
        cplatform_has_bits64(start + offset, Int32(count))
    }

    // MARK: Sleeping on a word

    /// Sleeps while the 32-bit word has the expected value, until it is woken, a signal arrives or the timeout passes.
    /// Call it in a loop, since it may wake up too early.
    ///
    /// - Returns: False where the system cannot sleep on a word; it returns at once then.
    package func sleep(on offset: Int, while expected: UInt32, forNanoseconds timeout: UInt64) -> Bool {
        cplatform_futex_wait(start + offset, expected, timeout) != ENOSYS
    }

    /// The same, until `end` is set.
    ///
    /// - Returns: False where the system cannot sleep on a word, and where ``SleepEnd/endsSleeps`` says that it cannot
    ///   sleep on two; it returns at once then.
    package func sleep(
        on offset: Int, while expected: UInt32, until end: SleepEnd, forNanoseconds timeout: UInt64
    ) -> Bool {
        cplatform_futex_wait_either(start + offset, expected, end.word, 0, timeout) != ENOSYS
    }

    /// Wakes one sleeper of the word, of any process.
    package func wake(_ offset: Int) { cplatform_futex_wake(start + offset) }

    /// Wakes all sleepers of the word.
    package func wakeAll(_ offset: Int) { cplatform_futex_wake_all(start + offset) }
}

/// Ends the sleep of one thread of this process on shared memory, and wakes no other sleeper of that word.
// Safe because: the word is used by atomic operations alone, and lives as long as the object.
package final class SleepEnd: @unchecked Sendable {
    fileprivate let word: UnsafeMutableRawPointer

    /// Whether the system can do that.
    package static let endsSleeps: Bool = {
        let words = SleepEnd()
        // Another value than expected: the call returns at once where there is one.
        return cplatform_futex_wait_either(words.word, 1, words.word, 1, 0) == EAGAIN
    }()

    package init() {
        word = .allocate(byteCount: 4, alignment: 4)
        word.storeBytes(of: 0, as: UInt32.self)
    }

    deinit { word.deallocate() }

    package var isSet: Bool { cplatform_load32(word) != 0 }

    /// Ends the sleep that waits for it, and each later one.
    package func set() {
        cplatform_store32(word, 1)
        cplatform_futex_wake_own(word)
    }
}
