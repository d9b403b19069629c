import PageFormat
import StoreCrypto

/// Page encryption, pages, headers and WALs, by the code of PageFormat.
enum PageVectors {
    static func settings(_ vector: ConformanceVector) throws -> CipherSettings {
        var settings = CipherSettings.plaintextHeader
        func hash(_ key: String) throws -> HashAlgorithm? {
            try vector.headers[key].map { name in
                guard let hash = HashAlgorithm(rawValue: name) else {
                    throw ConformanceVector.FormError.malformed(line: key)
                }
                return hash
            }
        }
        if vector.headers["page_bytes"] != nil { settings.pageBytes = try vector.number("page_bytes") }
        if vector.headers["plaintext_header_bytes"] != nil {
            settings.plaintextHeaderBytes = try vector.number("plaintext_header_bytes")
        }
        if vector.headers["kdf_rounds"] != nil { settings.kdfRounds = try vector.number("kdf_rounds") }
        settings.kdfHash = try hash("kdf_hash") ?? settings.kdfHash
        settings.hmacHash = try hash("hmac_hash") ?? settings.hmacHash
        return settings
    }

    private static func keys(_ vector: ConformanceVector) throws -> PageKeys {
        try PageKeys(
            dataKey: SecretBytes(copying: vector.bytes("key")), salt: vector.bytes("salt"), settings: settings(vector))
    }

    static func page(_ vector: ConformanceVector) throws -> VectorVerdict {
        var codec = try PageCodec(keys: keys(vector))
        let number = UInt32(try vector.number("number"))
        let page = try vector.part("page")
        guard page.withUnsafeBytes({ codec.verify($0, number: number) }) else {
            return VectorVerdict("pageDamaged \(number)")
        }
        var plain = page
        try page.withUnsafeBytes { page in
            try plain.withUnsafeMutableBytes { try codec.decrypt(page, number: number, into: $0) }
        }
        return .ok(["plain_sha256": try plain.sha256()])
    }

    static func encryption(_ vector: ConformanceVector) throws -> VectorVerdict {
        var codec = try PageCodec(keys: keys(vector))
        let number = UInt32(try vector.number("number"))
        let plain = try plainPage(try vector.text("plain_stream"), number, codec.layout)
        var page = plain
        let initializationVector = try vector.bytes("iv")
        try plain.withUnsafeBytes { plain in
            try page.withUnsafeMutableBytes {
                try codec.encrypt(plain, number: number, initializationVector: initializationVector, into: $0)
            }
        }
        return .ok(["sha256": try page.sha256()])
    }

    /// The plain page of a name.
    private static func plainPage(_ name: String, _ number: UInt32, _ layout: PageLayout) throws -> [UInt8] {
        var plain: [UInt8] = []
        for index in 0..<layout.pageBytes / 32 {
            var digest = try ContentDigest()
            Array("\(name)/\(index)".utf8).withUnsafeBytes { digest.update($0) }
            plain += try digest.finish()
        }
        if number == 1 {
            let size = DatabaseHeader.encodePageBytes(layout.pageBytes)
            let fields = [UInt8(size >> 8), UInt8(size & 255), 2, 2, UInt8(layout.reservedBytes)]
            plain.replaceSubrange(0..<24, with: DatabaseHeader.magic + fields + DatabaseHeader.payloadFractions)
        }
        let reserve = [UInt8](repeating: 0, count: layout.reservedBytes)
        plain.replaceSubrange(layout.usableBytes..., with: reserve)
        return plain
    }

    static func header(_ vector: ConformanceVector) throws -> VectorVerdict {
        let first = try vector.part("database")
        let isKnown = vector.headers["page_bytes"] != nil
        let fileBytes = vector.headers["file_bytes"] == nil ? first.count : try vector.number("file_bytes")
        let verdict = DatabaseHeader.examine(
            first, fileBytes: fileBytes, settings: isKnown ? try settings(vector) : nil)
        return switch verdict {
        case .plaintextHeader: .ok()
        case .damagedHeader(let damage): VectorVerdict("headerDamaged \(damage.offset)")
        case .empty: VectorVerdict("empty")
        case .tooShort: VectorVerdict("tooShort")
        case .plainSQLite: VectorVerdict("plainSQLite")
        case .opaque: VectorVerdict("opaque")
        }
    }

    static func wal(_ vector: ConformanceVector) throws -> VectorVerdict {
        let content = try vector.part("wal")
        let keys = try keys(vector)
        let read: PageScan.Reader = { offset, buffer in
            guard offset < content.count else { return 0 }
            let piece = content[offset..<min(content.count, offset + buffer.count)]
            buffer.copyBytes(from: piece)
            return piece.count
        }
        let limit = vector.headers["max_frame"] == nil ? nil : UInt32(try vector.number("max_frame"))
        let scan = try WALScan.scan(fileBytes: content.count, maximumFrame: limit, read: read)
        guard let scan else {
            let isRefused = content.withUnsafeBytes(WALHeader.unknownVersion) != nil
            return VectorVerdict(isRefused ? "logDamaged" : "walIgnored")
        }
        if scan.header.pageBytes != keys.layout.pageBytes { return VectorVerdict("logDamaged") }
        let images = scan.lastFrames.sorted { $0.key < $1.key }.map { "\($0.key):\($0.value)" }
        let results = [
            "frames": "\(scan.committedFrames)", "pages": "\(scan.databasePages)",
            "uncommitted": "\(scan.uncommittedFrames)", "images": images.listed,
        ]
        let report = try PageScan.verifyFrames(keys: keys, of: scan, workers: 1, read: read)
        guard let frame = (report.damaged + report.zero + report.missing).min() else { return .ok(results) }
        return VectorVerdict("frameDamaged \(frame)", results)
    }
}
