import StoreCrypto

extension DatabaseHeader {
    /// Determines from the beginning of a file what it is, without any key.
    ///
    /// One changed byte of a plaintext header is reported as damage at its offset. Bytes 24 to 31 (change counter and
    /// page count) may have any value here: the caller compares the page count with file and WAL.
    ///
    /// - Parameters:
    ///   - first: The first bytes of the file: all of them, or 4096 at least.
    ///   - fileBytes: Length of the whole file.
    ///   - settings: The known settings; nil accepts every page size and reserve that SQLCipher writes.
    package static func examine(_ first: [UInt8], fileBytes: Int, settings: CipherSettings?) -> HeaderVerdict {
        if fileBytes == 0 { return .empty }
        if fileBytes < PageLayout.smallestPageBytes || first.count < headerBytes {
            return .tooShort(fileBytes: fileBytes, looksLikeText: first.looksLikeText)
        }
        if first.isPlainSQLite { return .plainSQLite }
        let rules = HeaderRules(settings: settings)
        let wrong = rules.wrongBytes(first)
        // A header of random bytes matches about 0.1 of the 24 fixed bytes on average; more than half is no accident.
        guard wrong.count < HeaderRules.fixedBytes / 2 else {
            return .opaque(OpaqueFile(first, fileBytes: fileBytes, settings: settings))
        }
        if let damage = wrong.first {
            return .damagedHeader(
                HeaderDamage(
                    offset: damage.offset, found: first[damage.offset], expected: damage.expected,
                    wrongBytes: wrong.count))
        }
        guard let header = DatabaseHeader(first) else {
            return .opaque(OpaqueFile(first, fileBytes: fileBytes, settings: settings))
        }
        return .plaintextHeader(header)
    }
}

/// The values that SQLCipher can have written into bytes 0 to 23 of a plaintext header.
private struct HeaderRules {
    /// Bytes under rules: 0 to 23.
    static let fixedBytes = 24

    let settings: CipherSettings?

    struct Violation {
        var offset: Int
        var expected: String
    }

    /// Every byte that violates a rule, in order.
    func wrongBytes(_ header: [UInt8]) -> [Violation] {
        var violations: [Violation] = []
        func expect(_ value: UInt8, at offset: Int, _ meaning: String) {
            if header[offset] != value {
                violations.append(Violation(offset: offset, expected: "\(value) (\(meaning))"))
            }
        }
        for (offset, byte) in DatabaseHeader.magic.enumerated() {
            expect(byte, at: offset, "part of the text \"SQLite format 3\"")
        }
        checkPageSize(header, &violations)
        checkVersions(header, &violations)
        checkReserve(header, &violations)
        for (index, fraction) in DatabaseHeader.payloadFractions.enumerated() {
            expect(fraction, at: DatabaseHeader.Offset.maximumPayloadFraction + index, "fixed by SQLite's file format")
        }
        return violations
    }

    private func checkPageSize(_ header: [UInt8], _ violations: inout [Violation]) {
        let offset = DatabaseHeader.Offset.pageBytes
        let field = header.bigEndian(at: offset, as: UInt16.self)
        guard let settings else {
            if !PageLayout.isPageSize(DatabaseHeader.decodePageBytes(field)) {
                violations.append(Violation(offset: offset, expected: "a page size of 512 to 65536"))
            }
            return
        }
        let expected = DatabaseHeader.encodePageBytes(settings.pageBytes)
        for (index, byte) in [UInt8(expected >> 8), UInt8(expected & 0xff)].enumerated()
        where header[offset + index] != byte {
            let meaning = "part of the page size \(settings.pageBytes)"
            violations.append(Violation(offset: offset + index, expected: "\(byte) (\(meaning))"))
        }
    }

    private func checkVersions(_ header: [UInt8], _ violations: inout [Violation]) {
        let offsets = [DatabaseHeader.Offset.writeVersion, DatabaseHeader.Offset.readVersion]
        let expected = "1 (rollback journal) or 2 (WAL), the same in bytes 18 and 19"
        let unknown = offsets.filter { DatabaseHeader.JournalMode(rawValue: header[$0]) == nil }
        if unknown.isEmpty, header[offsets[0]] != header[offsets[1]] {
            // Either of the two may be the changed one.
            violations.append(Violation(offset: offsets[0], expected: expected))
        }
        violations += unknown.map { Violation(offset: $0, expected: expected) }
    }

    private func checkReserve(_ header: [UInt8], _ violations: inout [Violation]) {
        let offset = DatabaseHeader.Offset.reservedBytes
        let known = settings?.possibleReserves ?? CipherSettings.everyReserve
        if !known.contains(Int(header[offset])) {
            let values = known.map(String.init).joined(separator: " or ")
            violations.append(Violation(offset: offset, expected: "\(values) (reserved bytes of each page)"))
        }
    }
}

extension CipherSettings {
    /// The possible values of byte 20: the reserve that these settings need, or that of SQLCipher's default.
    ///
    /// `PRAGMA cipher_hmac_algorithm` comes after the key, when SQLite already has the default reserve, and SQLite
    /// never shrinks a reserve. Pages then have a gap between SQLite's bytes and the vector, encrypted like them.
    fileprivate var possibleReserves: [Int] {
        Set([reservedBytes, CipherSettings.sqlCipher4.reservedBytes]).sorted()
    }

    /// The reserves that authenticated pages can have, by hash.
    fileprivate static let everyReserve: [Int] = Set(
        HashAlgorithm.allCases.map { CipherSettings(hmacHash: $0).reservedBytes }
    ).sorted()
}

extension OpaqueFile {
    fileprivate init(_ first: [UInt8], fileBytes: Int, settings: CipherSettings?) {
        let pageBytes = settings?.pageBytes ?? PageLayout.smallestPageBytes
        looksLikeText = first.looksLikeText
        looksRandom = first.looksRandom
        isZero = first.allSatisfy { $0 == 0 }
        isMultipleOf512 = fileBytes % PageLayout.smallestPageBytes == 0
        isWholePages = pageBytes > 0 && fileBytes >= pageBytes && fileBytes % pageBytes == 0
    }
}

extension [UInt8] {
    /// A SQLite header, perhaps with a wrong byte or two, whose second part is readable as well.
    fileprivate var isPlainSQLite: Bool {
        let matching = zip(self, DatabaseHeader.magic).count { $0 == $1 }
        // These 20 bytes are zero in every plain database, and random in an encrypted one.
        let expansion = self[DatabaseHeader.Offset.expansion..<DatabaseHeader.Offset.versionValidFor]
        return matching >= 12 && expansion.count { $0 == 0 } >= 18
    }

    /// Valid UTF-8 without control characters other than white space.
    fileprivate var looksLikeText: Bool {
        guard !isEmpty, !contains(where: { $0 < 0x20 && !(0x09...0x0d).contains($0) || $0 == 0x7f }) else {
            return false
        }
        // The last character may be incomplete.
        let scalars = String(decoding: self, as: UTF8.self).unicodeScalars
        return scalars.dropLast(3).allSatisfy { $0 != "\u{FFFD}" }
    }

    /// Byte values spread as evenly as random ones: the sum of squared counts is near its expected value.
    fileprivate var looksRandom: Bool {
        var counts = [Int](repeating: 0, count: 256)
        for byte in self { counts[Int(byte)] += 1 }
        let squares = counts.reduce(0) { $0 + $1 * $1 }
        let byChance = count + count * (count - 1) / 256
        return squares < byChance * 3 / 2
    }
}
