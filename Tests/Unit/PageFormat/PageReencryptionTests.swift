import Foundation
import PageFormat
import StoreCrypto
import Synchronization
import Testing

/// A file in memory that several threads read and write.
private final class PagesInMemory: Sendable {
    private let bytes: Mutex<[UInt8]>
    private let pageBytes: Int
    let readCount = Mutex(0)

    init(_ bytes: [UInt8], pageBytes: Int = 1024) {
        self.bytes = Mutex(bytes)
        self.pageBytes = pageBytes
    }

    var content: [UInt8] {
        get { bytes.withLock { $0 } }
        set { bytes.withLock { $0 = newValue } }
    }

    func read(_ places: Range<Int>, _ pages: UnsafeMutableRawBufferPointer) {
        readCount.withLock { $0 += 1 }
        bytes.withLock { pages.copyBytes(from: $0[places.lowerBound * pageBytes..<places.upperBound * pageBytes]) }
    }

    func write(_ places: Range<Int>, _ pages: UnsafeRawBufferPointer) {
        bytes.withLock { bytes in
            if bytes.count < places.upperBound * pageBytes {
                bytes += [UInt8](repeating: 0, count: places.upperBound * pageBytes - bytes.count)
            }
            bytes.replaceSubrange(places.lowerBound * pageBytes..<places.upperBound * pageBytes, with: pages)
        }
    }
}

@Suite("Re-encrypting pages")
struct PageReencryptionTests {
    private static let settings = CipherSettings(pageBytes: 1024, plaintextHeaderBytes: 32)
    private static let newKey = (0..<32).map { UInt8(200 - $0) }
    private static let newSalt = (0..<16).map { UInt8(99 - $0) }

    private func newKeys(_ settings: CipherSettings = settings) throws -> PageKeys {
        try PageKeys(dataKey: SecretBytes(copying: Self.newKey), salt: Self.newSalt, settings: settings)
    }

    private func reencryption(_ settings: CipherSettings = settings) throws -> PageReencryption {
        try PageReencryption(from: TestKey.keys(settings), to: newKeys(settings))
    }

    /// The content of a page; the reserve at its end is zeros, as a decrypted page has it.
    private func plain(_ number: UInt32, _ settings: CipherSettings = settings) -> [UInt8] {
        let content = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: settings.pageBytes)
        return content.dropLast(settings.reservedBytes) + [UInt8](repeating: 0, count: settings.reservedBytes)
    }

    /// A main file of so many sound pages.
    private func file(pages: UInt32) throws -> PagesInMemory {
        var codec = try PageCodec(keys: TestKey.keys(Self.settings))
        return PagesInMemory(try (1...pages).flatMap { try codec.encrypted(plain($0), $0) })
    }

    private func flow(workers: Int = 2, rereads: Int = 0) -> PageReencryption.Flow {
        var flow = PageReencryption.Flow()
        flow.workers = workers
        flow.rereads = rereads
        return flow
    }

    private func copy(
        _ source: PagesInMemory, to target: PagesInMemory, _ row: PageReencryption.Row, zeros: Bool = false,
        by reencryption: PageReencryption, _ flow: PageReencryption.Flow? = nil
    ) throws -> Bool {
        try reencryption.copy(
            row, acceptsZeroPages: zeros, flow: flow ?? self.flow(), read: { source.read($0, $1) },
            write: { target.write($0, $1) })
    }

    @Test("every page comes out under the new key with the same content, on any number of threads", arguments: [1, 5])
    func copies(workers: Int) throws {
        let (source, target) = (try file(pages: 700), PagesInMemory([]))
        let reencryption = try reencryption()
        #expect(try copy(source, to: target, .all(700), by: reencryption, flow(workers: workers)))
        #expect(try reencryption.verify(.all(700), flow: flow(workers: workers)) { target.read($0, $1) })
        var codec = try PageCodec(keys: newKeys())
        for number in [1, 2, 256, 257, 700] as [UInt32] {
            let page = Array(target.content[Int(number - 1) * 1024..<Int(number) * 1024])
            let isAuthentic = codec.verifies(page, number)
            #expect(isAuthentic)
            let content = try codec.decrypted(page, number)
            #expect(content == plain(number))
        }
    }

    @Test("a damaged page ends the copy by its number, after it was read again as often as asked")
    func refusesDamage() throws {
        let source = try file(pages: 300)
        source.content = source.content.flipping(298 * 1024 + 500)
        let pauses = Mutex(0)
        var flow = flow(workers: 1, rereads: 3)
        flow.pause = { pauses.withLock { $0 += 1 } }
        let reencryption = try reencryption()
        #expect(throws: PageReencryptionError.damaged(299)) {
            _ = try copy(source, to: PagesInMemory([]), .all(300), by: reencryption, flow)
        }
        #expect(pauses.withLock { $0 } == 3)
    }

    @Test("a page that was read while it was being written is sound when it is read again")
    func readsAgain() throws {
        let source = try file(pages: 10)
        let sound = source.content
        source.content = sound.flipping(4 * 1024 + 9)
        var flow = flow(workers: 1, rereads: 5)
        flow.pause = { source.content = sound }
        let (target, reencryption) = (PagesInMemory([]), try reencryption())
        #expect(try copy(source, to: target, .all(10), by: reencryption, flow))
        #expect(try reencryption.verify(.all(10), flow: flow) { target.read($0, $1) })
    }

    @Test("a page of zeros stays one where the database is auto-vacuum, and is damaged elsewhere")
    func carriesZeros() throws {
        let source = try file(pages: 20)
        source.content.replaceSubrange(7 * 1024..<8 * 1024, with: [UInt8](repeating: 0, count: 1024))
        let (target, reencryption) = (PagesInMemory([]), try reencryption())
        #expect(throws: PageReencryptionError.damaged(8)) {
            _ = try copy(source, to: target, .all(20), by: reencryption)
        }
        #expect(try copy(source, to: target, .all(20), zeros: true, by: reencryption))
        #expect(target.content[7 * 1024..<8 * 1024].allSatisfy { $0 == 0 })
        #expect(try reencryption.verify(.all(20), flow: flow()) { target.read($0, $1) })
    }

    @Test("what is not on the medium as it was written is found by its number, zeros and other authentic pages too")
    func findsDifferences() throws {
        let (source, target, reencryption) = (try file(pages: 40), PagesInMemory([]), try reencryption())
        #expect(try copy(source, to: target, .all(40), by: reencryption))
        let sound = target.content
        func difference(_ change: (inout [UInt8]) -> Void) -> PageReencryptionError? {
            var bytes = sound
            change(&bytes)
            target.content = bytes
            do {
                _ = try reencryption.verify(.all(40), flow: flow()) { target.read($0, $1) }
                return nil
            } catch { return error as? PageReencryptionError }
        }
        #expect(difference { $0[9 * 1024 + 3] ^= 4 } == .differs(10))
        #expect(
            difference { $0.replaceSubrange(5 * 1024..<6 * 1024, with: [UInt8](repeating: 0, count: 1024)) }
                == .differs(6))
        // Authentic under the new key, at the right place, with another content.
        var codec = try PageCodec(keys: newKeys())
        let other = try codec.encrypted(plain(99), 13)
        #expect(difference { $0.replaceSubrange(12 * 1024..<13 * 1024, with: other) } == .differs(13))
        #expect(difference { _ in } == nil)
        #expect(throws: PageReencryptionError.differs(41)) {
            _ = try reencryption.verify(.all(41), flow: flow()) { target.read($0, $1) }
        }
    }

    @Test("single pages are carried over later, and the copy compared with their newer content")
    func carriesSinglePages() throws {
        let (source, target, reencryption) = (try file(pages: 9), PagesInMemory([]), try reencryption())
        #expect(try copy(source, to: target, .all(9), by: reencryption))
        var codec = try PageCodec(keys: TestKey.keys(Self.settings))
        // Frames of a log, in no order; page 11 is new.
        let numbers: [UInt32] = [11, 3, 7]
        let frames = PagesInMemory(try numbers.flatMap { try codec.encrypted(plain($0 + 100), $0) })
        #expect(
            try reencryption.copy(
                .pages(numbers), acceptsZeroPages: false, flow: flow(), read: { frames.read($0, $1) },
                write: { places, pages in
                    for place in places {
                        let at = Int(numbers[place]) - 1
                        let start = (place - places.lowerBound) * 1024
                        target.write(at..<at + 1, UnsafeRawBufferPointer(rebasing: pages[start..<start + 1024]))
                    }
                }))
        #expect(try reencryption.verify(.all(9), flow: flow()) { target.read($0, $1) })
        var next = try PageCodec(keys: newKeys())
        let (third, last) = (target.content[2 * 1024..<3 * 1024], target.content[10 * 1024..<11 * 1024])
        let contents = [try next.decrypted(Array(third), 3), try next.decrypted(Array(last), 11)]
        #expect(contents == [plain(103), plain(111)])
    }

    @Test("the page of the lock bytes is passed over, its neighbours are not")
    func skipsTheLockBytePage() throws {
        let settings = CipherSettings(pageBytes: 65_536, plaintextHeaderBytes: 32)
        let reencryption = try reencryption(settings)
        let lockPage = reencryption.layout.lockBytePage
        let numbers = [lockPage - 1, lockPage, lockPage + 1]
        var codec = try PageCodec(keys: TestKey.keys(settings))
        let source = PagesInMemory(
            try codec.encrypted(plain(1, settings), numbers[0]) + [UInt8](repeating: 0xee, count: 65_536)
                + codec.encrypted(plain(3, settings), numbers[2]), pageBytes: 65_536)
        let target = PagesInMemory([], pageBytes: 65_536)
        #expect(try copy(source, to: target, .pages(numbers), by: reencryption))
        #expect(target.content[65_536..<2 * 65_536].allSatisfy { $0 == 0 })
        #expect(try reencryption.verify(.pages(numbers), flow: flow()) { target.read($0, $1) })
    }

    @Test("page 1 keeps its clear bytes, or gets the new salt where the salt stands there")
    func firstPage() throws {
        for headerBytes in [0, 32] {
            let settings = CipherSettings(pageBytes: 1024, plaintextHeaderBytes: headerBytes)
            var codec = try PageCodec(keys: TestKey.keys(settings))
            var content = plain(7)
            content.replaceSubrange(0..<16, with: DatabaseHeader.magic)
            let source = PagesInMemory(try codec.encrypted(content, 1))
            let (target, reencryption) = (PagesInMemory([]), try reencryption(settings))
            #expect(try copy(source, to: target, .all(1), by: reencryption))
            #expect(Array(target.content[..<16]) == (headerBytes == 0 ? Self.newSalt : DatabaseHeader.magic))
            #expect(try reencryption.verify(.all(1), flow: flow()) { target.read($0, $1) })
        }
    }

    @Test("whether a database is auto-vacuum is read from page 1")
    func readsAutoVacuum() throws {
        let reencryption = try reencryption()
        for largestRoot in [0, 5] as [UInt8] {
            var content = plain(0)
            content[DatabaseHeader.Offset.largestRootPage + 3] = largestRoot
            var codec = try PageCodec(keys: TestKey.keys(Self.settings))
            var page = try codec.encrypted(content, 1)
            let found = try page.withUnsafeMutableBytes { try reencryption.isAutoVacuum(firstPage: $0) }
            #expect(found == (largestRoot != 0))
        }
        var torn = [UInt8](repeating: 1, count: 1024)
        #expect(throws: PageReencryptionError.damaged(1)) {
            _ = try torn.withUnsafeMutableBytes { try reencryption.isAutoVacuum(firstPage: $0) }
        }
    }

    @Test("keys for pages of different layout are refused")
    func refusesOtherLayouts() throws {
        #expect(throws: PageFormatError.self) {
            _ = try PageReencryption(from: TestKey.keys(.plaintextHeader), to: newKeys())
        }
    }

    @Test("progress adds up, the pace is told every byte, cancelling and errors end the copy")
    func flows() throws {
        struct BadSector: Error {}
        let (source, reencryption) = (try file(pages: 700), try reencryption())
        let most = Mutex(0)
        let bytes = Mutex(0)
        var flow = flow()
        flow.progress = { done in most.withLock { $0 = max($0, done) } }
        flow.pace = { count in bytes.withLock { $0 += count } }
        #expect(try copy(source, to: PagesInMemory([]), .all(700), by: reencryption, flow))
        #expect(most.withLock { $0 } == 700)
        #expect(bytes.withLock { $0 } == 700 * 1024)
        flow.isCancelled = { true }
        #expect(try !copy(source, to: PagesInMemory([]), .all(700), by: reencryption, flow))
        #expect(throws: BadSector.self) {
            _ = try reencryption.copy(
                .all(700), acceptsZeroPages: false, flow: self.flow(), read: { source.read($0, $1) },
                write: { _, _ in throw BadSector() })
        }
    }
}
