import Foundation
import StorePlatform
import TestKit
import Testing

@testable import EncryptionConformance

/// The check looked at the limit of core files alone. The kernel does not apply that limit where a program such as
/// systemd-coredump receives the images: the check passed, and each crash gave the key away.
@Suite("Core images of a process with an open store")
struct CoreImageTests {
    @Test("a limit of 0 counts only where the kernel writes core images to files")
    func receiver() {
        var images = CoreImages(limit: "0", pattern: "core\n", isDumpable: true)
        #expect(images.result.verdict == .pass)
        images.limit = "unlimited"
        #expect(images.result.verdict == .knownLimit)
        images.pattern = "|/usr/lib/systemd/systemd-coredump %P\n"
        images.limit = "0"
        #expect(images.result.verdict == .knownLimit)
        #expect(images.result.evidence.joined().contains("hands core images"))
        images.isDumpable = false
        #expect(images.result.verdict == .pass)
    }

    @Test(
        "the state of this process is read",
        .enabled(if: FileManager.default.fileExists(atPath: "/proc/self/limits"), "needs /proc"))
    func thisProcess() throws {
        let images = try #require(CoreImages.ofThisProcess)
        #expect(images.limit == "unlimited" || Int(images.limit) != nil)
        #expect(!images.pattern.isEmpty && images.isDumpable)
    }
}
