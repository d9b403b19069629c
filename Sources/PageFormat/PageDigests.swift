import StoreCrypto

/// The fingerprints of the copied pages, 16 bytes for each, for comparison with the copy.
// Safe because: memory is exchanged in `grow` only, which nobody calls while workers run; each worker writes and reads
// the positions of its own pages.
final class PageDigests: @unchecked Sendable {
    private var memory: UnsafeMutableBufferPointer<PageDigester.Digest>

    init() { memory = UnsafeMutableBufferPointer.allocate(capacity: 0) }

    deinit { memory.deallocate() }

    /// Allocates memory for pages up to this number; not while others use it.
    func grow(toPage last: UInt32) {
        guard Int(last) > memory.count else { return }
        let larger = UnsafeMutableBufferPointer<PageDigester.Digest>.allocate(capacity: Int(last))
        larger.initialize(repeating: .zero)
        for index in memory.indices { larger[index] = memory[index] }
        memory.deallocate()
        memory = larger
    }

    /// The fingerprint of a page for which memory is allocated.
    subscript(page: UInt32) -> PageDigester.Digest {
        get { memory[Int(page) - 1] }
        set { memory[Int(page) - 1] = newValue }
    }

    /// The last page for which memory is allocated.
    var lastPage: UInt32 { UInt32(memory.count) }
}
