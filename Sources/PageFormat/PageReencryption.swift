import StoreCrypto

/// Re-encrypts the pages of a database from one key and salt to another, on several threads, and verifies the result.
///
/// Each page is authenticated, decrypted, fingerprinted, encrypted under the new key with its own vector, and written.
/// ``verify(_:flow:read:)`` reads what was written, authenticates and decrypts it under the new key, and compares the
/// fingerprints. A page costs no allocation.
///
/// The caller reads and writes the pages: the same code copies a whole file and single frames of a WAL.
package final class PageReencryption: Sendable {
    /// Fills the buffer with the pages at these positions, in order; called on all threads.
    package typealias Reader = @Sendable (_ places: Range<Int>, _ pages: UnsafeMutableRawBufferPointer) throws -> Void
    /// Receives the pages at these positions, in order; called on all threads.
    package typealias Writer = @Sendable (_ places: Range<Int>, _ pages: UnsafeRawBufferPointer) throws -> Void

    /// The pages of one pass.
    package struct Row: Sendable {
        let count: Int
        /// The highest page number.
        let last: UInt32
        let number: @Sendable (Int) -> UInt32

        /// Pages 1 to `count`.
        package static func all(_ count: UInt32) -> Row {
            Row(count: Int(count), last: count) { UInt32($0 + 1) }
        }

        /// Single pages, without duplicates.
        package static func pages(_ numbers: [UInt32]) -> Row {
            Row(count: numbers.count, last: numbers.max() ?? 0) { numbers[$0] }
        }
    }

    /// The options of a pass.
    package struct Flow: Sendable {
        /// The number of threads.
        package var workers = 1
        /// Called with the number of finished pages, on any thread and not strictly in order.
        package var progress: @Sendable (Int) -> Void = { _ in }
        /// Called before each batch.
        package var isCancelled: @Sendable () -> Bool = { false }
        /// Called with the length of each batch, in bytes, before it is read; it may wait.
        package var pace: @Sendable (Int) -> Void = { _ in }
        /// Pauses before a page that fails is read again.
        package var pause: @Sendable () -> Void = {}
        /// How often a page that fails is read again.
        package var rereads = 0

        package init() {}
    }

    /// Pages are read and written in batches of this size.
    private static let batchBytes = 256 * 1024

    private let former: PageKeys
    private let next: PageKeys
    private let digestKey: SecretBytes
    private let digests = PageDigests()
    /// The layout of a page, under both keys.
    package let layout: PageLayout

    /// - Throws: ``PageFormatError`` when the two keys are for pages of different layout, or libcrypto refuses.
    package init(from former: consuming PageKeys, to next: consuming PageKeys) throws(PageFormatError) {
        guard former.layout == next.layout else {
            throw .unusableSettings(reason: "the pages of the two keys are not laid out alike")
        }
        do throws(CryptoError) {
            digestKey = try SecretBytes.random(count: PageDigester.keyBytes)
        } catch {
            throw .cryptography(error)
        }
        layout = former.layout
        self.former = former
        self.next = next
    }

    /// Copies pages.
    ///
    /// The page of the lock bytes is written as zeros. A page of zeros is copied as one where `acceptsZeroPages` says
    /// so, as SQLCipher accepts them in auto-vacuum databases; elsewhere it counts as damaged.
    ///
    /// - Returns: False when it was cancelled.
    /// - Throws: ``PageReencryptionError`` `damaged`, what `read` and `write` throw, and ``PageFormatError``.
    package func copy(
        _ row: Row, acceptsZeroPages: Bool, flow: Flow, read: @escaping Reader, write: @escaping Writer
    ) throws -> Bool {
        digests.grow(toPage: row.last)
        return try run(row, flow) { places, pages, workbench in
            try read(places, pages)
            for place in places {
                let number = row.number(place)
                let page = Self.page(place, of: places, in: pages, layout)
                digests[number] = try reencrypt(page, number, acceptsZeroPages, &workbench, flow) {
                    try read(place..<place + 1, page)
                }
            }
            try write(places, UnsafeRawBufferPointer(pages))
        }
    }

    /// Reads the copied pages, and compares them with the originals.
    ///
    /// - Returns: False when it was cancelled.
    /// - Throws: ``PageReencryptionError`` `differs`, what `read` throws, and ``PageFormatError``.
    package func verify(_ row: Row, flow: Flow, read: @escaping Reader) throws -> Bool {
        if row.last > digests.lastPage { throw PageReencryptionError.differs(row.last) }
        return try run(row, flow) { places, pages, workbench in
            try read(places, pages)
            for place in places {
                let number = row.number(place)
                if number == layout.lockBytePage { continue }
                let page = Self.page(place, of: places, in: pages, layout)
                let isAuthentic = workbench.next.verify(UnsafeRawBufferPointer(page), number: number)
                if isAuthentic {
                    try workbench.next.decrypt(UnsafeRawBufferPointer(page), number: number, into: page)
                } else if !PageCodec.isZero(UnsafeRawBufferPointer(page)) {
                    throw PageReencryptionError.differs(number)
                }
                let found = try workbench.digester.digest(UnsafeRawBufferPointer(page), number: number)
                if found != digests[number] { throw PageReencryptionError.differs(number) }
            }
        }
    }

    /// Whether page 1, as the former key encrypts it, is that of an auto-vacuum database.
    ///
    /// - Throws: ``PageReencryptionError`` `damaged`, and ``PageFormatError``.
    package func isAutoVacuum(firstPage: UnsafeMutableRawBufferPointer) throws -> Bool {
        var codec = try PageCodec(keys: former)
        guard codec.verify(UnsafeRawBufferPointer(firstPage), number: 1) else {
            throw PageReencryptionError.damaged(1)
        }
        try codec.decrypt(UnsafeRawBufferPointer(firstPage), number: 1, into: firstPage)
        let largestRoot = DatabaseHeader.Offset.largestRootPage
        return UnsafeRawBufferPointer(firstPage).bigEndian(at: largestRoot, as: UInt32.self) != 0
    }

    /// The state of one thread.
    private struct Workbench: ~Copyable {
        var former: PageCodec
        var next: PageCodec
        var digester: PageDigester
    }

    private func run(
        _ row: Row, _ flow: Flow,
        _ work: @Sendable (Range<Int>, UnsafeMutableRawBufferPointer, inout Workbench) throws -> Void
    ) throws -> Bool {
        let batch = max(1, Self.batchBytes / layout.pageBytes)
        let queue = BatchQueue(count: row.count, batch: batch, isCancelled: flow.isCancelled)
        return try queue.run(workers: min(flow.workers, (row.count + batch - 1) / batch)) { queue in
            var workbench = Workbench(
                former: try PageCodec(keys: former), next: try PageCodec(keys: next),
                digester: try PageDigester(key: digestKey))
            let buffer = UnsafeMutableRawBufferPointer.allocate(
                byteCount: batch * layout.pageBytes, alignment: 4096)
            defer { buffer.deallocate() }
            while let places = queue.take() {
                let pages = UnsafeMutableRawBufferPointer(rebasing: buffer[..<(places.count * layout.pageBytes)])
                flow.pace(pages.count)
                try work(places, pages, &workbench)
                flow.progress(queue.finish(places.count))
            }
        }
    }

    /// Re-encrypts one page under the new key, in place.
    ///
    /// - Returns: The fingerprint of its content.
    private func reencrypt(
        _ page: UnsafeMutableRawBufferPointer, _ number: UInt32, _ acceptsZeroPages: Bool,
        _ workbench: inout Workbench, _ flow: Flow, readAgain: () throws -> Void
    ) throws -> PageDigester.Digest {
        let content = UnsafeRawBufferPointer(page)
        if number == layout.lockBytePage {
            page.initializeMemory(as: UInt8.self, repeating: 0)
            return .zero
        }
        var rereads = 0
        while !workbench.former.verify(content, number: number) {
            if acceptsZeroPages && PageCodec.isZero(content) {
                return try workbench.digester.digest(content, number: number)
            }
            guard rereads < flow.rereads else { throw PageReencryptionError.damaged(number) }
            rereads += 1
            flow.pause()
            try readAgain()
        }
        try workbench.former.decrypt(content, number: number, into: page)
        let digest = try workbench.digester.digest(content, number: number)
        try workbench.next.encrypt(content, number: number, into: page)
        return digest
    }

    private static func page(
        _ place: Int, of places: Range<Int>, in pages: UnsafeMutableRawBufferPointer, _ layout: PageLayout
    ) -> UnsafeMutableRawBufferPointer {
        let start = (place - places.lowerBound) * layout.pageBytes
        return UnsafeMutableRawBufferPointer(rebasing: pages[start..<start + layout.pageBytes])
    }
}

/// Why pages could not be copied.
package enum PageReencryptionError: Error, Hashable, Sendable {
    /// A page of the database fails its authentication, also when it is read again.
    case damaged(UInt32)
    /// A page of the copy differs from what was written there.
    case differs(UInt32)
}
