import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto
import StoreTools
import TestKit
import Testing

/// The keys of a store's pages, and pages that are written with them.
struct FixtureKeys {
    let key: PageKey
    var salt: Salt { key.salt }
    var dataKey: [UInt8] { key.dataKey.withBytes { Array($0) } }

    init(_ fixture: ConformanceFixture) throws {
        let files = SidecarFiles(databasePath: fixture.path)
        let secret = try UnlockedKey(fixture.source)
        key = try #require(try files.choose(files.read(), unlock: secret.unlock)).pageKey
    }

    /// Encrypts pages again with one vector.
    func rewrite(pages: [Int], vector: [UInt8], _ fixture: ConformanceFixture) throws {
        var codec = try PageCodec(keys: PageKeys(key))
        let file = try fixture.bytes()
        for page in pages {
            var plain = [UInt8](repeating: 0, count: 4096)
            var encrypted = plain
            try file[(page - 1) * 4096..<page * 4096].withUnsafeBytes { source in
                try plain.withUnsafeMutableBytes { try codec.decrypt(source, number: UInt32(page), into: $0) }
            }
            try plain.withUnsafeBytes { source in
                try encrypted.withUnsafeMutableBytes {
                    try codec.encrypt(source, number: UInt32(page), initializationVector: vector, into: $0)
                }
            }
            try fixture.poke(at: (page - 1) * 4096, encrypted)
        }
    }

    /// Changes the content of a page as a holder of the key can: the page stays authentic.
    func change(page: Int, _ fixture: ConformanceFixture, _ body: (inout [UInt8]) throws -> Void) throws {
        var codec = try PageCodec(keys: PageKeys(key))
        let file = try fixture.bytes()
        var plain = [UInt8](repeating: 0, count: 4096)
        try file[(page - 1) * 4096..<page * 4096].withUnsafeBytes { source in
            try plain.withUnsafeMutableBytes { try codec.decrypt(source, number: UInt32(page), into: $0) }
        }
        try body(&plain)
        var encrypted = plain
        try plain.withUnsafeBytes { source in
            try encrypted.withUnsafeMutableBytes { try codec.encrypt(source, number: UInt32(page), into: $0) }
        }
        try fixture.poke(at: (page - 1) * 4096, encrypted)
    }

    /// The free pages of a store, without those that list the others.
    func freeLeaves(_ fixture: ConformanceFixture) throws -> [Int] {
        let pages = try AuthenticPages(path: fixture.path, file: RawFile(fixture.path), key: key)
        let free = try pages.freePages().pages
        let first = try #require(try pages.page(1)?.bytes).bigEndian(at: 32)
        let next = try #require(try pages.page(first)?.bytes).bigEndian(at: 0)
        return (2...Int(pages.pageCount)).filter { free.contains(UInt32($0)) && ![first, next].contains(UInt32($0)) }
    }
}
