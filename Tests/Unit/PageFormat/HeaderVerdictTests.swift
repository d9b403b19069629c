@testable import PageFormat
import StoreCrypto
import Testing

@Suite("Files without a key")
struct HeaderVerdictTests {
    /// A page 1 with a plaintext header, as SQLCipher writes it.
    private func encryptedFile(_ settings: CipherSettings = .plaintextHeader, journal: UInt8 = 2) throws -> [UInt8] {
        var codec = try PageCodec(keys: TestKey.keys(settings))
        return try codec.encrypted(plainHeader(settings, journal) + zeros(settings.pageBytes - 100), 1)
    }

    private func plainHeader(_ settings: CipherSettings, _ journal: UInt8, reserve: UInt8? = nil) -> [UInt8] {
        var header = zeros(100)
        func set(_ offset: Int, _ bytes: [UInt8]) {
            header.replaceSubrange(offset..<offset + bytes.count, with: bytes)
        }
        let size = DatabaseHeader.encodePageBytes(settings.pageBytes)
        set(0, DatabaseHeader.magic)
        set(16, [UInt8(size >> 8), UInt8(size & 0xff), journal, journal])
        set(20, [reserve ?? UInt8(settings.reservedBytes), 64, 32, 32])
        set(24, [0, 0, 0, 9, 0, 0, 0, 3])
        set(44, [0, 0, 0, 4])
        set(56, [0, 0, 0, 1])
        set(92, [0, 0, 0, 9, 0, 0x2e, 0x7d, 1])
        return header
    }

    private func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }

    private func examine(_ bytes: [UInt8], _ settings: CipherSettings? = .plaintextHeader) -> HeaderVerdict {
        DatabaseHeader.examine(bytes, fileBytes: bytes.count, settings: settings)
    }

    @Test("a sound plaintext header is read", arguments: [1, 2] as [UInt8], [512, 1024, 4096, 65_536])
    func readsSoundHeaders(journal: UInt8, pageBytes: Int) throws {
        let settings = CipherSettings(pageBytes: pageBytes, plaintextHeaderBytes: 32)
        for known in [settings, nil] {
            guard case .plaintextHeader(let header) = examine(try encryptedFile(settings, journal: journal), known)
            else {
                Issue.record("not recognised")
                return
            }
            #expect(header.pageBytes == pageBytes)
            #expect(header.journalMode == (journal == 2 ? .writeAheadLog : .rollback))
            #expect(header.reservedBytes == 80)
            #expect(header.changeCounter == 9)
            #expect(header.pageCount == 3)
        }
    }

    @Test("any wrong value of any fixed header byte is damage at that byte", arguments: 0..<24)
    func findsEachWrongByte(offset: Int) throws {
        let file = try encryptedFile()
        for mask in UInt8(1)...255 {
            guard case .damagedHeader(let damage) = examine(file.flipping(offset, by: mask)) else {
                Issue.record("byte \(offset) changed by \(mask) is not recognised as damage")
                return
            }
            // 2 turned into 1 in byte 19 leaves two valid bytes that disagree; the first is named.
            #expect(damage.offset == (offset == 19 && mask == 3 ? 18 : offset))
            #expect(damage.wrongBytes == 1)
            #expect(damage.found == file[damage.offset] ^ (damage.offset == offset ? mask : 0))
            #expect(!damage.expected.isEmpty)
        }
    }

    @Test("a wrong byte is found without settings too", arguments: Array(0..<16) + [18, 19, 20, 21, 22, 23])
    func findsWrongBytesWithoutSettings(offset: Int) throws {
        guard case .damagedHeader(let damage) = examine(try encryptedFile().flipping(offset), nil) else {
            Issue.record("byte \(offset) is not recognised as damage")
            return
        }
        #expect(damage.offset == offset)
    }

    @Test("change counter and page count may hold anything", arguments: 24..<32)
    func leavesCountersToTheCaller(offset: Int) throws {
        guard case .plaintextHeader = examine(try encryptedFile().flipping(offset)) else {
            Issue.record("byte \(offset) is taken for damage")
            return
        }
    }

    @Test(
        "the default's reserve is sound under a shorter code too, as a pragma after the key leaves it",
        arguments: [HashAlgorithm.sha1, .sha256])
    func acceptsTheLargerReserve(hash: HashAlgorithm) throws {
        let settings = CipherSettings(plaintextHeaderBytes: 32, hmacHash: hash)
        var file = try encryptedFile(settings)
        for (reserve, isSound) in [(48, true), (80, true), (64, false), (0, false)] as [(UInt8, Bool)] {
            file[20] = reserve
            if case .plaintextHeader = examine(file, settings) { #expect(isSound) } else { #expect(!isSound) }
        }
    }

    @Test("another page size than the one on record is damage")
    func comparesThePageSize() throws {
        let verdict = examine(try encryptedFile(CipherSettings(pageBytes: 8192, plaintextHeaderBytes: 32)))
        guard case .damagedHeader(let damage) = verdict else {
            Issue.record("\(verdict)")
            return
        }
        #expect(damage.offset == 16)
        #expect(damage.found == 0x20)
        #expect(damage.expected == "16 (part of the page size 4096)")
    }

    @Test(
        "plain SQLite is recognised whatever its reserve, and with a wrong byte in its magic",
        arguments: [0, 80] as [UInt8])
    func recognisesPlainSQLite(reserve: UInt8) throws {
        let plain = plainHeader(.plaintextHeader, 1, reserve: reserve) + zeros(3996)
        #expect(examine(plain) == .plainSQLite)
        #expect(examine(plain, nil) == .plainSQLite)
        for offset in 0..<24 { #expect(examine(plain.flipping(offset)) == .plainSQLite) }
    }

    @Test("a standard SQLCipher file is opaque, random and whole pages")
    func recognisesStandardFiles() throws {
        var generator = SeededGenerator("standard files")
        for _ in 0..<200 {
            let settings = CipherSettings.sqlCipher4
            var codec = try PageCodec(keys: TestKey.keys(settings, salt: generator.bytes(16)))
            let page = try codec.encrypted(plainHeader(settings, 2) + zeros(3996), 1)
            guard case .opaque(let traits) = examine(page, settings) else {
                Issue.record("not opaque")
                return
            }
            #expect(traits.mayBeStandardSQLCipher && traits.isWholePages)
            #expect(!traits.looksLikeText && !traits.isZero)
        }
    }

    @Test("text, zeros and odd lengths are told apart from encrypted files")
    func describesOtherFiles() throws {
        let text = Array(String(repeating: "Dear customer, überweisen Sie bitte. \n", count: 200).utf8)
        let insideLetter = try #require(text[4000...].firstIndex(of: 0xc3)) + 1
        for cut in [text.count, 4096, insideLetter] {
            guard case .opaque(let traits) = examine(Array(text[..<cut])) else {
                Issue.record("text is not opaque")
                return
            }
            #expect(traits.looksLikeText && !traits.looksRandom && !traits.mayBeStandardSQLCipher)
        }
        guard case .opaque(let traits) = examine(zeros(8192)) else {
            Issue.record("zeros are not opaque")
            return
        }
        #expect(traits.isZero && traits.isMultipleOf512 && traits.isWholePages && !traits.mayBeStandardSQLCipher)
        var generator = SeededGenerator("odd lengths")
        guard case .opaque(let odd) = examine(generator.bytes(5000)) else {
            Issue.record("noise is not opaque")
            return
        }
        #expect(odd.looksRandom && !odd.isMultipleOf512 && !odd.isWholePages && !odd.mayBeStandardSQLCipher)
    }

    @Test("empty and short files say so")
    func recognisesShortFiles() {
        #expect(examine([]) == .empty)
        #expect(examine(Array("hello\n".utf8)) == .tooShort(fileBytes: 6, looksLikeText: true))
        #expect(examine(DatabaseHeader.magic) == .tooShort(fileBytes: 16, looksLikeText: false))
        #expect(
            DatabaseHeader.examine([1], fileBytes: 8192, settings: nil)
                == .tooShort(fileBytes: 8192, looksLikeText: false))
    }

    @Test("a header overwritten for the most part is no header any more")
    func givesUpOnHeavyDamage() throws {
        var file = try encryptedFile()
        file.replaceSubrange(0..<14, with: zeros(14))
        guard case .opaque = examine(file) else {
            Issue.record("still taken for a header")
            return
        }
    }

    @Test("random beginnings get a verdict and never a crash")
    func survivesNoise() throws {
        var generator = SeededGenerator("random headers")
        let file = try encryptedFile()
        for _ in 0..<5000 {
            var bytes =
                Bool.random(using: &generator) ? file : generator.bytes(Int.random(in: 0...700, using: &generator))
            for _ in 0..<Int.random(in: 0...20, using: &generator) where !bytes.isEmpty {
                let offset = Int.random(in: 0..<min(bytes.count, 120), using: &generator)
                bytes[offset] = UInt8.random(in: 0...255, using: &generator)
            }
            bytes = Array(bytes.prefix(Int.random(in: 0...4096, using: &generator)))
            let length = Bool.random(using: &generator) ? bytes.count : Int.random(in: 0...1 << 40, using: &generator)
            _ = DatabaseHeader.examine(
                bytes, fileBytes: length, settings: Bool.random(using: &generator) ? nil : .plaintextHeader)
        }
    }
}
