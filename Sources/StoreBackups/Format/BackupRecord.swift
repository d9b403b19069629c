import CipherStore
import PageFormat
import StoreCrypto

/// The record of a backup: the object that makes it one. Its name is the SHA-256 of its bytes.
///
/// The hashes in it find damage, and anyone can compute them. The key of the authentication code is derived from the data
/// key, so only its holder can combine pages of different moments. Docs/Formats/BackupRepository.md tabulates the
/// offsets.
struct BackupRecord: Hashable, Sendable {
    enum Offset {
        static let magic = 0
        static let version = 6
        static let storeID = 8
        static let epoch = 24
        static let generation = 32
        static let sequence = 40
        static let created = 48
        static let pageBytes = 56
        static let pages = 60
        static let salt1 = 64
        static let salt2 = 68
        static let frame = 72
        static let parent = 76
        static let map = 108
        static let sidecar = 140
        static let keyLog = 172
        static let library = 204
        static let packCount = 268
        static let packs = 272
    }

    static let magic = "CSBKUP"
    static let version: UInt16 = 1
    static let libraryBytes = 64
    static let codeBytes = 32
    static let codeLabel = "cipherstore backup record v1"

    /// The position in the WAL of the store that the backup contains everything up to.
    struct WALPlace: Hashable, Sendable {
        let salt1: UInt32
        let salt2: UInt32
        let frame: UInt32
    }

    let facts: BackupFacts
    /// One more than that of every earlier backup of the store that its maker saw: an order that no clock changes.
    let sequence: UInt64
    let wal: WALPlace
    /// The backup whose packs it uses; none for a base.
    let parent: ObjectHash
    let map: ObjectHash
    let sidecar: ObjectHash
    /// `none` where the store had no key log.
    let keyLog: ObjectHash
    /// SQLCipher's version.
    let library: String
    let packs: [ObjectHash]

    /// The bytes of the object, sealed with the data key.
    func sealed(_ dataKey: DataKey) throws -> [UInt8] {
        let body = body
        return try body + Self.code(of: body, facts.storeID, dataKey)
    }

    /// Whether a holder of the data key wrote these bytes of a record.
    func isAuthentic(_ bytes: [UInt8], _ dataKey: DataKey) throws -> Bool {
        let code = try Self.code(of: Array(bytes.dropLast(Self.codeBytes)), facts.storeID, dataKey)
        return MessageAuthentication.isEqual(code, Array(bytes.suffix(Self.codeBytes)))
    }

    private static func code(of body: [UInt8], _ storeID: StoreID, _ dataKey: DataKey) throws -> [UInt8] {
        try dataKey.withSecret { secret throws(CryptoError) in
            let key = try KeyDerivation.hkdf(key: secret, salt: storeID.bytes, label: codeLabel, keyBytes: codeBytes)
            return try MessageAuthentication.hmac(.sha256, key: key, body)
        }
    }

    private var body: [UInt8] {
        var bytes: [UInt8] = []
        bytes.begin(Self.magic, version: Self.version)
        bytes += facts.storeID.bytes
        bytes.append(number: facts.epoch)
        bytes.append(number: facts.generation)
        bytes.append(number: sequence)
        bytes.append(number: facts.created)
        bytes.append(number: UInt32(facts.pageBytes))
        bytes.append(number: facts.pages)
        bytes.append(number: wal.salt1)
        bytes.append(number: wal.salt2)
        bytes.append(number: wal.frame)
        for hash in [parent, map, sidecar, keyLog] { bytes += hash.bytes }
        let name = Array(library.utf8.filter { (0x20...0x7e).contains($0) }.prefix(Self.libraryBytes))
        bytes += name + [UInt8](repeating: 0, count: Self.libraryBytes - name.count)
        bytes.append(number: UInt32(packs.count))
        for pack in packs { bytes += pack.bytes }
        return bytes
    }

    /// Reads a record, which is not authenticated by that.
    static func parse(_ bytes: [UInt8]) throws(FormatFault) -> BackupRecord {
        var reader = FieldReader(bytes)
        try reader.begin(magic, version: version)
        guard let storeID = StoreID(bytes: try reader.take(StoreID.byteCount)) else {
            throw FormatFault("has no store")
        }
        let (epoch, generation, sequence, created) = (
            try reader.number(UInt64.self), try reader.number(UInt64.self), try reader.number(UInt64.self),
            try reader.number(UInt64.self)
        )
        let (pageBytes, pages) = (Int(try reader.number(UInt32.self)), try reader.number(UInt32.self))
        guard PageLayout.isPageSize(pageBytes), pages > 0 else { throw FormatFault("has impossible sizes") }
        let wal = WALPlace(salt1: try reader.number(), salt2: try reader.number(), frame: try reader.number())
        let (parent, map, sidecar, keyLog) = (
            try reader.hash(), try reader.hash(), try reader.hash(), try reader.hash()
        )
        let name = try reader.take(libraryBytes)
        let library = String(decoding: name.prefix { $0 != 0 }, as: UTF8.self)
        let count = Int(try reader.number(UInt32.self))
        guard bytes.count == Offset.packs + count * ObjectHash.byteCount + codeBytes else {
            throw FormatFault("has another length")
        }
        var packs: [ObjectHash] = []
        for _ in 0..<count { packs.append(try reader.hash()) }
        _ = try reader.take(codeBytes)
        try reader.requireEnd()
        return BackupRecord(
            facts: BackupFacts(
                storeID: storeID, epoch: epoch, generation: generation, created: created, pageBytes: pageBytes,
                pages: pages),
            sequence: sequence, wal: wal, parent: parent, map: map, sidecar: sidecar, keyLog: keyLog, library: library,
            packs: packs)
    }
}
