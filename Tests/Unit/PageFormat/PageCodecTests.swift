import Foundation
@testable import PageFormat
import StoreCrypto
import Testing

/// The shape of Keys/vectors/pages.json.
struct PageVectors: Decodable {
    struct Vector: Decodable, Sendable, CustomTestStringConvertible {
        var name: String
        var pageBytes: Int
        var plaintextHeaderBytes: Int
        var kdfHash: String
        var hmacHash: String
        var number: UInt32
        var vector: String
        var pageSHA256: String
        var page: String?

        var testDescription: String { name }

        var settings: CipherSettings {
            CipherSettings(
                pageBytes: pageBytes, plaintextHeaderBytes: plaintextHeaderBytes,
                kdfHash: HashAlgorithm(rawValue: kdfHash)!, hmacHash: HashAlgorithm(rawValue: hmacHash)!)
        }
    }

    var dataKey: String
    var salt: String
    var vectors: [Vector]

    static let all = try! JSONDecoder().decode(
        PageVectors.self, from: Data(contentsOf: keysFolder.appending(path: "vectors/pages.json")))
}

/// Settings over every page size, header form and hash.
let everySettings: [CipherSettings] = (9...16).flatMap { shift in
    [0, 32].flatMap { header in
        HashAlgorithm.allCases.map { hash in
            CipherSettings(pageBytes: 1 << shift, plaintextHeaderBytes: header, kdfHash: hash, hmacHash: hash)
        }
    }
}

@Suite("Page codec")
struct PageCodecTests {
    @Test("pages are those of an independent implementation", arguments: PageVectors.all.vectors)
    func reproducesVectors(vector: PageVectors.Vector) throws {
        let keys = try PageKeys(
            dataKey: SecretBytes(copying: [UInt8](hex: PageVectors.all.dataKey)),
            salt: [UInt8](hex: PageVectors.all.salt), settings: vector.settings)
        var codec = try PageCodec(keys: keys)
        let plain = try plainPage(vector)
        let page = try codec.encrypted(plain, vector.number, vector: [UInt8](hex: vector.vector))
        #expect(try sha256(page).hex == vector.pageSHA256)
        if let expected = vector.page { #expect(page.hex == expected) }
        let verifies = codec.verifies(page, vector.number)
        #expect(verifies)
        let decrypted = try codec.decrypted(page, vector.number)
        #expect(decrypted == plain)
    }

    /// The rows that SQLite sees of a vector's page, by the rule that the generator states.
    private func plainPage(_ vector: PageVectors.Vector) throws -> [UInt8] {
        var page: [UInt8] = []
        for block in 0..<(vector.pageBytes / 32) { page += try sha256(Array("\(vector.name)/\(block)".utf8)) }
        let reserve = vector.settings.reservedBytes
        if vector.number == 1 {
            let size = vector.pageBytes == 65_536 ? 1 : vector.pageBytes
            let fixed = [UInt8(size >> 8), UInt8(size & 0xff), 2, 2, UInt8(reserve), 64, 32, 32]
            page.replaceSubrange(0..<24, with: Array("SQLite format 3\0".utf8) + fixed)
        }
        return page.dropLast(reserve) + [UInt8](repeating: 0, count: reserve)
    }

    private func sha256(_ bytes: [UInt8]) throws -> [UInt8] {
        var digest = try ContentDigest()
        bytes.withUnsafeBytes { digest.update($0) }
        return try digest.finish()
    }

    @Test("what is encrypted verifies and decrypts to itself", arguments: everySettings)
    func roundTrips(settings: CipherSettings) throws {
        var generator = SeededGenerator("round trip")
        var codec = try PageCodec(keys: TestKey.keys(settings))
        for number in [1, 2, 77, UInt32.max] {
            var plain = generator.bytes(settings.pageBytes)
            if number == 1 { plain.replaceSubrange(0..<16, with: DatabaseHeader.magic) }
            let reserve = settings.pageBytes - settings.reservedBytes..<settings.pageBytes
            let page = try codec.encrypted(plain, number)
            plain.replaceSubrange(reserve, with: repeatElement(0, count: reserve.count))
            let verifies = codec.verifies(page, number)
            #expect(verifies)
            let decrypted = try codec.decrypted(page, number)
            #expect(decrypted == plain)
            let again = try codec.encrypted(plain, number)
            #expect(again != page, "every write has a vector of its own")
        }
    }

    @Test("page 1 shows the salt or SQLite's header, and nothing else shows", arguments: [0, 32])
    func showsOnlyTheHeader(headerBytes: Int) throws {
        var codec = try PageCodec(keys: TestKey.keys(CipherSettings(plaintextHeaderBytes: headerBytes)))
        let plain = DatabaseHeader.magic + [UInt8](repeating: 0x41, count: 4080)
        let page = try codec.encrypted(plain, 1)
        if headerBytes == 0 {
            #expect(Array(page[..<16]) == TestKey.salt)
        } else {
            #expect(page[..<32] == plain[..<32])
        }
        #expect(!page[max(16, headerBytes)...].hex.contains("41414141"))
        let second = try codec.encrypted(plain, 2)
        #expect(!second.hex.contains(DatabaseHeader.magic.hex))
    }

    @Test("a changed bit in any authenticated part of a page is noticed", arguments: everySettings)
    func noticesEveryRegion(settings: CipherSettings) throws {
        var codec = try PageCodec(keys: TestKey.keys(settings))
        for number in [UInt32(1), 2] {
            let layout = codec.layout
            let page = try codec.encrypted([UInt8](repeating: 7, count: settings.pageBytes), number)
            let clear = layout.clearBytes(ofPage: number)
            let covered = [
                clear, clear + 1, layout.usableBytes / 2, layout.vectorOffset - 1, layout.vectorOffset,
                layout.codeOffset - 1, layout.codeOffset, layout.paddingOffset - 1,
            ]
            for offset in covered {
                let passes = codec.verifies(page.flipping(offset, by: 1), number)
                #expect(!passes, "offset \(offset)")
            }
            // Neither the clear bytes nor the padding are covered: that is SQLCipher's format.
            for offset in [clear > 0 ? clear - 1 : nil, layout.paddingOffset < settings.pageBytes ? -1 : nil] {
                guard let offset else { continue }
                let passes = codec.verifies(page.flipping(offset < 0 ? settings.pageBytes + offset : offset), number)
                #expect(passes)
            }
        }
    }

    @Test("another key, salt, page number, hash or header form verifies nothing")
    func refusesForeignPages() throws {
        var codec = try PageCodec(keys: TestKey.keys(.plaintextHeader))
        let page = try codec.encrypted([UInt8](repeating: 7, count: 4096), 2)
        for number in [UInt32(0), 1, 3, 0x0200_0000] {
            let passes = codec.verifies(page, number)
            #expect(!passes)
        }
        let foreignSalt = TestKey.salt.flipping(15, by: 1)
        var otherSalt = try PageCodec(keys: TestKey.keys(.plaintextHeader, salt: foreignSalt))
        let passesOtherSalt = otherSalt.verifies(page, 2)
        #expect(!passesOtherSalt)
        var otherKey = try PageCodec(
            dataKey: SecretBytes(copying: TestKey.bytes.flipping(0, by: 1)), salt: TestKey.salt,
            settings: .plaintextHeader)
        let passesOtherKey = otherKey.verifies(page, 2)
        #expect(!passesOtherKey)
        var otherHash = try PageCodec(keys: TestKey.keys(CipherSettings(hmacHash: .sha256)))
        let passesOtherHash = otherHash.verifies(page, 2)
        #expect(!passesOtherHash)
        let first = try codec.encrypted([UInt8](repeating: 7, count: 4096), 1)
        var otherForm = try PageCodec(keys: TestKey.keys(.sqlCipher4))
        let passesOtherForm = otherForm.verifies(first, 1)
        #expect(!passesOtherForm)
    }

    @Test("buffers of the wrong length, page 0 and short vectors are refused")
    func refusesWrongLengths() throws {
        var codec = try PageCodec(keys: TestKey.keys(.plaintextHeader))
        let short = [UInt8](repeating: 1, count: 4095)
        let passes = codec.verifies(short, 2)
        #expect(!passes)
        #expect(throws: PageFormatError.wrongLength(what: "a page buffer", bytes: 4095, expectedBytes: 4096)) {
            _ = try codec.decrypted(short, 2)
        }
        #expect(throws: PageFormatError.pageNumberZero) { _ = try codec.encrypted(short + [1], 0) }
        #expect(throws: PageFormatError.self) { _ = try codec.encrypted(short + [1], 2, vector: [1, 2, 3]) }
    }

    @Test("a page of zeros is told apart and authenticates nothing")
    func tellsZeroPages() throws {
        var codec = try PageCodec(keys: TestKey.keys(.plaintextHeader))
        let zeros = [UInt8](repeating: 0, count: 4096)
        let passes = codec.verifies(zeros, 2)
        #expect(!passes)
        #expect(zeros.withUnsafeBytes { PageCodec.isZero($0) })
        for offset in [0, 4095] {
            #expect(!zeros.flipping(offset, by: 1).withUnsafeBytes { PageCodec.isZero($0) })
        }
    }

    @Test(
        "settings that no SQLCipher page has are refused",
        arguments: [
            (0, 0), (511, 0), (1000, 0), (256, 0), (131_072, 0), (-4096, 0), (4096, 1), (4096, 112), (4096, -16),
        ])
    func refusesOddSettings(pageBytes: Int, headerBytes: Int) {
        #expect(throws: PageFormatError.self) {
            _ = try TestKey.keys(CipherSettings(pageBytes: pageBytes, plaintextHeaderBytes: headerBytes))
        }
    }

    @Test("keys and salts of the wrong length are refused")
    func refusesOddKeys() {
        #expect(throws: PageFormatError.wrongLength(what: "the data key", bytes: 31, expectedBytes: 32)) {
            _ = try PageKeys(
                dataKey: SecretBytes(copying: TestKey.bytes.dropLast()), salt: TestKey.salt, settings: .sqlCipher4)
        }
        #expect(throws: PageFormatError.wrongLength(what: "the salt", bytes: 17, expectedBytes: 16)) {
            _ = try TestKey.keys(.sqlCipher4, salt: TestKey.salt + [1])
        }
    }

    @Test("the page of the lock bytes is the one that covers 2^30", arguments: [512, 1024, 4096, 65_536])
    func knowsTheLockBytePage(pageBytes: Int) throws {
        let layout = try PageLayout(CipherSettings(pageBytes: pageBytes))
        let start = (Int(layout.lockBytePage) - 1) * pageBytes
        #expect((start..<start + pageBytes).contains(PageLayout.lockByteOffset))
    }
}
