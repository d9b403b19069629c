import CPlatform

/// Bytes that are wiped when they are no longer needed: what a key source reads before it becomes a secret. They are in
/// locked memory where the process's limit permits it.
package struct WipedBuffer: ~Copyable, Sendable {
    private let storage: Storage

    /// A class only for its address, which never moves and is never copied.
    // Safe because: only the one buffer that owns it reaches it, and that one is not copyable.
    private final class Storage: @unchecked Sendable {
        let memory: UnsafeMutableRawBufferPointer
        let pages: LockedPages?
        var count = 0

        init(capacity: Int) {
            pages = LockedPages(byteCount: capacity)
            memory =
                pages.map { UnsafeMutableRawBufferPointer(start: $0.start, count: capacity) }
                ?? .allocate(byteCount: capacity, alignment: 16)
        }

        deinit {
            if let address = memory.baseAddress { cplatform_wipe(address, memory.count) }
            if let pages { pages.release() } else { memory.deallocate() }
        }
    }

    package init(capacity: Int) { storage = Storage(capacity: capacity) }

    /// Whether the bytes are in locked memory.
    package var isLocked: Bool { storage.pages != nil }

    /// The number of bytes in the buffer.
    package var count: Int { storage.count }

    /// The remaining space in bytes.
    package var remaining: Int { storage.memory.count - storage.count }

    /// Passes the bytes to a closure.
    package func withBytes<Result: ~Copyable, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(UnsafeRawBufferPointer(rebasing: storage.memory[..<storage.count]))
    }

    /// Appends one byte when there is space.
    package mutating func append(_ byte: UInt8) {
        guard remaining > 0 else { return }
        storage.memory[storage.count] = byte
        storage.count += 1
    }

    /// Removes the last `dropped` bytes; they are wiped with the buffer, or overwritten before.
    package mutating func removeLast(_ dropped: Int) {
        storage.count -= min(max(dropped, 0), storage.count)
    }

    /// Appends the result of one read of `descriptor`, and returns its length; 0 means the end or a full buffer.
    package mutating func append(readingFrom descriptor: borrowing FileDescriptor) throws(SystemError) -> Int {
        let room = UnsafeMutableRawBufferPointer(rebasing: storage.memory[storage.count...])
        guard !room.isEmpty else { return 0 }
        let count = try descriptor.read(into: room)
        storage.count += count
        return count
    }
}
