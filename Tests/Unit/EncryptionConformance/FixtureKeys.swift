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

    /// The pages of a store.
    func authentic(_ fixture: ConformanceFixture) throws -> AuthenticPages {
        try AuthenticPages(path: fixture.path, file: RawFile(fixture.path), key: key)
    }

    /// The last page with the rest of the first row of a leaf.
    func overflowPage(of leaf: UInt32, _ fixture: ConformanceFixture) throws -> UInt32 {
        let pages = try authentic(fixture)
        let bytes = try #require(try pages.page(leaf)).bytes
        let page = try #require(TreePage(bytes, number: leaf, usableBytes: pages.usableBytes))
        var last = try #require(page.cell(0)?.overflow)
        while let next = try pages.page(last)?.bytes.bigEndian(at: 0), next != 0 { last = next }
        return last
    }

    /// The free pages of a store, without those that list the others.
    func freeLeaves(_ fixture: ConformanceFixture) throws -> [Int] {
        let pages = try AuthenticPages(path: fixture.path, file: RawFile(fixture.path), key: key)
        return try FreeList(pages).leaves.map(Int.init)
    }
}
