import Foundation
import StorePlatform
import Synchronization
import TestKit
import Testing

@testable import StoreSharing

@Suite("Notifications between processes: the file")
struct NotificationFileTests {
    private let folder = TemporaryFolder()
    private var paths: StorePaths { StorePaths(folder.path("app.db")) }

    @Test("the document of the notification file has the offsets of the code")
    func document() throws {
        let document = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Docs/Formats/NotifyFile.md").standardizedFileURL
        let text = try String(contentsOf: document, encoding: .utf8)
        var documented: [String: Int] = [:]
        for line in text.split(separator: "\n") where line.hasPrefix("|") {
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            if cells.count >= 3, cells[2].hasPrefix("`NotificationLayout.") {
                documented[cells[2].trimmingCharacters(in: ["`"])] = Int(cells[0])
            }
        }
        typealias Header = NotificationLayout.Header
        typealias Entry = NotificationLayout.Entry
        let constants = [
            "NotificationLayout.Header.magic": Header.magic, "NotificationLayout.Header.version": Header.version,
            "NotificationLayout.Header.byteCount": Header.byteCount, "NotificationLayout.Entry.low": Entry.low,
            "NotificationLayout.Entry.high": Entry.high, "NotificationLayout.Entry.posts": Entry.posts,
            "NotificationLayout.Entry.byteCount": Entry.byteCount,
        ]
        #expect(documented == constants)
        #expect(text.contains("The file has \(NotificationLayout.byteCount) bytes"))
        #expect(text.contains("Byte \(NotificationLayout.makingByte) is locked"))
        #expect(text.contains("Byte \(NotificationLayout.observersByte) is locked"))
    }

    @Test("the hash is FNV-1a with 128 bits")
    func hash() {
        // http://www.isthe.com/chongo/tech/comp/fnv/: the empty text has the offset basis.
        #expect(NotificationName("").high == 0x6c62_272e_07bb_0142)
        #expect(NotificationName("").low == 0x62b8_2175_6295_c58d)
        // By hand: (basis xor 0x61) times the prime.
        let basis: UInt128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d
        let product = (basis ^ 0x61) &* ((UInt128(1) << 88) + 0x13b)
        #expect(NotificationName("a").low == UInt64(truncatingIfNeeded: product))
        #expect(NotificationName("a").high == UInt64(truncatingIfNeeded: product >> 64))
    }

    @Test("posts reach those who observe the name, through other openings of the file")
    func posts() throws {
        #expect(try NotificationFile.open(paths) == nil)
        let observer = try NotificationFile.make(paths)
        let (one, two) = (NotificationName("one"), NotificationName("two"))
        let (first, second) = (try observer.observe(one), try observer.observe(two))
        #expect(first != second)
        let poster = try #require(try NotificationFile.open(paths))
        #expect(poster.entry(of: one) == first && poster.entry(of: NotificationName("three")) == nil)
        poster.post(first)
        poster.post(first)
        #expect(observer.posts(of: first) == 2 && observer.posts(of: second) == 0)
        #expect(try NotificationFile.make(paths).observe(one) == first)
        #expect(observer.isCurrent)
        try FileManager.default.removeItem(atPath: paths.notifications)
        #expect(!observer.isCurrent)
    }

    @Test("an observer that sleeps is woken by a post")
    func sleeping() throws {
        let observer = try NotificationFile.make(paths)
        let entry = try observer.observe(NotificationName("x"))
        let poster = try #require(try NotificationFile.open(paths))
        let (isAwake, hasBegun) = (Flag(), Flag())
        Thread.detachNewThread {
            hasBegun.set()
            while observer.posts(of: entry) == 0 { _ = observer.awaitPost(of: entry, after: 0, for: .seconds(60)) }
            isAwake.set()
        }
        #expect(waitUntil { hasBegun.isSet })
        poster.post(entry)
        #expect(waitUntil { isAwake.isSet })
    }

    @Test("a full table is emptied when nobody observes, and otherwise refused with the reason")
    func full() throws {
        let observer = try NotificationFile.make(paths)
        for number in 0..<NotificationLayout.entryCount { _ = try observer.observe(NotificationName("\(number)")) }
        let second = try NotificationFile.make(paths)
        let error = #expect(throws: SystemError.self) { try second.observe(NotificationName("more")) }
        #expect(error?.isNoSpace == true && error?.detail?.contains("1024") == true)
        second.close()
        observer.close()
        let third = try NotificationFile.make(paths)
        let entry = try third.observe(NotificationName("more"))
        #expect(third.entry(of: NotificationName("more")) == entry)
        #expect(third.entry(of: NotificationName("7")) == nil)
    }

    // A file of the user that another member of the group had given this name was overwritten.
    @Test("another content is left alone")
    func foreignContent() throws {
        let image = [UInt8](repeating: 0, count: 8192) + Array("a disk image".utf8)
        let long = [UInt8](repeating: 0, count: NotificationLayout.byteCount) + [1]
        for content in [Array("something else".utf8), [UInt8](repeating: 0xff, count: 50_000), image, long] {
            try Data(content).write(to: URL(fileURLWithPath: paths.notifications))
            let error = #expect(throws: SystemError.self) { try NotificationFile.make(paths) }
            #expect(error?.isAlreadyThere == true)
            #expect(try Data(contentsOf: URL(fileURLWithPath: paths.notifications)) == Data(content))
        }
    }

    @Test("what a crash of the machine left is replaced while nobody observes; a short file is extended")
    func remains() throws {
        let magic = withUnsafeBytes(of: NotificationLayout.magic, Array.init)
        for content in [[UInt8](), [UInt8](repeating: 0, count: 100), magic + [0xff, 0xff]] {
            try Data(content).write(to: URL(fileURLWithPath: paths.notifications))
            let file = try NotificationFile.make(paths)
            let entry = try file.observe(NotificationName("x"))
            #expect(file.posts(of: entry) == 0)
            let size = try FileDescriptor(opening: paths.notifications, .readOnly).status().byteCount
            #expect(size >= NotificationLayout.byteCount)
        }
    }

    // A file that was kept elsewhere, and had got this name as its second, was overwritten.
    @Test("a file with content and a second name is not written")
    func secondName() throws {
        let victim = folder.path("victim")
        try Data("kept".utf8).write(to: URL(fileURLWithPath: victim))
        try Files.link(victim, to: paths.notifications)
        #expect(throws: SystemError.self) { try NotificationFile.make(paths) }
        #expect(try Data(contentsOf: URL(fileURLWithPath: victim)) == Data("kept".utf8))
    }

    @Test("garbage in the entries does no harm")
    func garbage() throws {
        let file = try NotificationFile.make(paths)
        _ = try file.observe(NotificationName("x"))
        let bytes = [UInt8](repeating: 0x5a, count: NotificationLayout.byteCount - NotificationLayout.Header.byteCount)
        try FileDescriptor(opening: paths.notifications, .readWrite)
            .write(bytes, at: NotificationLayout.Header.byteCount)
        #expect(file.entry(of: NotificationName("x")) == nil)
        #expect(try NotificationFile.make(paths).entry(of: NotificationName("y")) == nil)
    }

    @Test("a file that another program truncates ends no process, and is opened again")
    func truncated() throws {
        let file = try NotificationFile.make(paths)
        let entry = try file.observe(NotificationName("name"))
        file.post(entry)
        #expect(file.isCurrent)
        let handle = try #require(FileHandle(forUpdatingAtPath: paths.notifications))
        try handle.truncate(atOffset: 0)
        file.post(entry)
        #expect(file.posts(of: entry) == 1 && !file.isCurrent)
        file.close()
        let again = try NotificationFile.make(paths)
        let other = try again.observe(NotificationName("name"))
        again.post(other)
        #expect(again.isCurrent && again.posts(of: other) == 1)
    }
}
