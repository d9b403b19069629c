// swift-tools-version: 6.1
import PackageDescription

/// Programs that use the library as its users do: what compiles here sees the public interface only. `make examples`
/// and `make consumer` build them, without the library's traits.
let package = Package(
    name: "Workbench",
    platforms: [.macOS(.v15), .iOS(.v18)],
    dependencies: [.package(name: "CipherStore", path: "../..")],
    targets: [
        // Programs to copy: each of them shares an encrypted store between two processes, and checks what it reads.
        .example("PlayersAndTeams"),
        .example("Bookshelf"),
        .example("Inbox"),
        .example("LiveTable", exclude: ["screenshot.py"]),
        .example("SyncTwoDevices", ["ChangesetSync"]),
        // The code of the READMEs, line for line (`.ci/readme`).
        .readme("Library", ["CipherStore"]),
        .readme("Tools", ["CipherStore", "KeyRotation", "StoreTools"]),
        // Code in GRDB's style, in both language modes.
        .consumer("ConsumerMode5", ["CipherStore"], .v5),
        .consumer("ConsumerMode6", ["CipherStore", "StoreTools"], .v6),
        // A service that holds its store against all checks, in Swift Testing and in XCTest.
        .testTarget(
            name: "ConformanceConsumerTests",
            dependencies: [.library("CipherStore"), .library("EncryptionConformance")],
            path: "Consumer/ConformanceConsumerTests"),
    ],
    swiftLanguageModes: [.v6]
)

extension Target.Dependency {
    static func library(_ name: String) -> Self { .product(name: name, package: "CipherStore") }
}

extension Target {
    static func example(_ name: String, _ libraries: [String] = [], exclude: [String] = []) -> Target {
        .executableTarget(
            name: name, dependencies: (["CipherStore"] + libraries).map { .library($0) }, path: "Examples/" + name,
            exclude: ["README.md"] + exclude)
    }

    static func readme(_ name: String, _ libraries: [String]) -> Target {
        .executableTarget(
            name: "Readme" + name, dependencies: libraries.map { .library($0) }, path: "Readme/" + name)
    }

    static func consumer(_ name: String, _ libraries: [String], _ mode: SwiftLanguageMode) -> Target {
        .executableTarget(
            name: name, dependencies: libraries.map { .library($0) }, path: "Consumer/" + name,
            swiftSettings: [
                .swiftLanguageMode(mode),
                // Warns of an expression whose types take longer to find, in milliseconds.
                .unsafeFlags(["-Xfrontend", "-warn-long-expression-type-checking=500"]),
            ])
    }
}
