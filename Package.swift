// swift-tools-version: 6.1
import PackageDescription

/// The layers of the package, lowest first; imports go down only (Docs/Architecture.md).
let package = Package(
    name: "CipherStore",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "CipherStore", targets: ["CipherStore"]),
        .library(name: "KeyRotation", targets: ["KeyRotation"]),
        .library(name: "StoreTools", targets: ["StoreTools"]),
        .library(name: "StoreBackups", targets: ["StoreBackups"]),
        .library(name: "EncryptionConformance", targets: ["EncryptionConformance"]),
        .library(name: "ChangesetSync", targets: ["ChangesetSync"]),
        // Empty without the trait of its name.
        .library(name: "PostgreSQLRemote", targets: ["PostgreSQLRemote"]),
        .executable(name: "cipherctl", targets: ["cipherctl"]),
        // Preloaded by tests into programs that are not linked with it (Docs/Testing.md).
        .library(name: "FaultShimPreload", type: .dynamic, targets: ["FaultShim"]),
    ],
    traits: [
        .trait(
            name: "PostgreSQL",
            description: "A PostgreSQL server as a remote (PostgreSQLRemote). It needs libpq; nothing else here does.")
    ],
    targets: [
        .system("CSQLCipher", package: "sqlcipher", apt: "libsqlcipher-dev", brew: "sqlcipher"),
        .system("COpenSSL", package: "libcrypto", apt: "libssl-dev", brew: "openssl@3"),
        // Only with the trait.
        .system("CPostgreSQL", package: "libpq", apt: "libpq-dev", brew: "libpq"),
        .target(name: "CPlatform"),
        .target(name: "StorePlatform", dependencies: ["CPlatform"]),
        .target(name: "StoreSharing", dependencies: ["StorePlatform"]),
        .target(name: "ObjectStorage", dependencies: ["StoreCrypto", "StorePlatform"]),
        .target(name: "StoreCrypto", dependencies: ["COpenSSL", "StorePlatform"]),
        .target(name: "PageFormat", dependencies: ["StoreCrypto", "StorePlatform", "StoreSharing"]),
        .target(name: "KeyCustody", dependencies: ["StorePlatform", "StoreSharing", "StoreCrypto"]),
        .target(
            name: "CipherDatabase",
            dependencies: [
                "CSQLCipher", "KeyCustody", "PageFormat", "StorePlatform", "StoreSharing", "StoreCrypto",
            ]),
        .target(
            name: "RotationCore",
            dependencies: [
                "CipherDatabase", "KeyCustody", "PageFormat", "StorePlatform", "StoreSharing", "StoreCrypto",
            ]),
        .target(name: "CipherSchema", dependencies: ["CipherDatabase", "KeyCustody", "StorePlatform"]),
        .target(name: "CipherRecords", dependencies: ["CipherDatabase", "CipherSchema"]),
        .target(name: "CipherObservation", dependencies: ["CipherDatabase", "CipherRecords", "StorePlatform"]),
        .target(
            name: "CipherStore",
            dependencies: [
                "CipherDatabase", "CipherObservation", "CipherRecords", "CipherSchema", "KeyCustody", "PageFormat",
                "RotationCore", "StorePlatform", "StoreSharing", "StoreCrypto", "CSQLCipher",
            ]),
        .target(
            name: "KeyRotation",
            dependencies: [
                "CipherDatabase", "CipherSchema", "CipherStore", "KeyCustody", "PageFormat", "RotationCore",
                "StoreCrypto", "StorePlatform", "StoreSharing",
            ]),
        .target(
            name: "StoreTools",
            dependencies: [
                "CipherDatabase", "CipherSchema", "CipherStore", "KeyCustody", "PageFormat", "RotationCore",
                "StoreCrypto", "StorePlatform", "StoreSharing",
            ]),
        .target(
            name: "StoreBackups",
            dependencies: [
                "CipherDatabase", "CipherStore", "KeyCustody", "ObjectStorage", "PageFormat", "RotationCore",
                "StoreCrypto", "StorePlatform", "StoreSharing",
            ]),
        .target(
            name: "EncryptionConformance",
            dependencies: [
                "CipherDatabase", "CipherStore", "KeyCustody", "PageFormat", "StoreCrypto", "StorePlatform",
                "StoreSharing", "StoreTools",
            ]),
        .target(
            name: "ChangesetSync",
            dependencies: [
                "CipherDatabase", "CipherStore", "KeyCustody", "ObjectStorage", "StoreCrypto", "StorePlatform",
            ]),
        .target(
            name: "PostgreSQLRemote",
            dependencies: [
                "ChangesetSync",
                .target(name: "CPostgreSQL", condition: .when(traits: ["PostgreSQL"])),
            ]),
        .executableTarget(
            name: "cipherctl",
            dependencies: [
                "CipherStore", "ChangesetSync", "EncryptionConformance", "KeyCustody", "KeyRotation", "PageFormat",
                "PostgreSQLRemote", "RotationCore", "StoreBackups", "StoreCrypto", "StorePlatform", "StoreSharing",
                "StoreTools",
            ]),
        .executableTarget(
            name: "StoreBenchmark",
            dependencies: ["CBaseline", "ChangesetSync", "EncryptionConformance", "KeyRotation", "PostgreSQLRemote"]),
        .target(name: "CBaseline", dependencies: ["COpenSSL", "CSQLCipher"]),
        .executableTarget(name: "StoreDemo", dependencies: ["CipherStore"]),
        // Tests (Docs/Testing.md). A target names the highest layers that it imports; the lower ones come with them.
        .support("TestKit", ["CipherStore", "CTestKit"]),
        .support("FaultShim"),
        .executableTarget(
            name: "StoreActor",
            dependencies: ["ChangesetSync", "FaultShim", "KeyRotation", "PostgreSQLRemote", "TestKit"],
            path: "Tests/Support/StoreActor"),
        .support("CTestKit"),
        // Stores that sync, by seeded schedules.
        .support("SyncSimulation", ["CipherObservation", "ChangesetSync", "TestKit"]),
        .support("SeededRandom"),
        .executableTarget(
            name: "SyncSimulator", dependencies: ["SeededRandom", "SyncSimulation"],
            path: "Tests/Support/SyncSimulator"),
        .target(name: "FuzzTargets", dependencies: ["ChangesetSync", "CipherStore"], path: "Tests/Fuzz/FuzzTargets"),
        .testTarget(name: "FuzzTests", dependencies: ["FuzzTargets"], path: "Tests/Fuzz/FuzzTests"),
        // Runs all tests, on threads that they may block.
        .support("TestHarness", ["CallWatch"]),
        .support("CallWatch"),
        .unit("StorePlatform"),
        .unit("StoreSharing", ["TestKit"]),
        .unit("StoreCrypto"),
        .unit("PageFormat", ["CSQLCipher"]),
        .unit("KeyCustody"),
        .unit("CipherDatabase", ["CipherSchema", "TestHarness", "TestKit"]),
        .unit("CipherRecords", ["CipherObservation"]),
        .unit("CipherObservation"),
        .unit("CipherStore", ["TestHarness", "TestKit", "StoreActor"]),
        .unit("RotationCore", ["TestKit"]),
        .unit("KeyRotation", ["TestKit", "StoreActor"]),
        .unit("StoreTools", ["KeyRotation", "TestKit"]),
        .unit("StoreBackups", ["TestKit"]),
        .unit("EncryptionConformance", ["KeyRotation", "TestKit"]),
        .unit("ChangesetSync", ["SyncSimulation", "TestKit"]),
        .unit(
            "PostgreSQLRemote",
            ["TestKit", .target(name: "CPostgreSQL", condition: .when(traits: ["PostgreSQL"]))]),
        .kind("MultiProcess", ["TestKit", "StoreActor"]),
        .kind("Conformance", ["KeyRotation", "StoreTools", "TestKit", "StoreActor"]),
        .kind("Crash", ["TestKit", "StoreActor"]),
        .kind("CommandLine", ["StoreBackups", "StoreTools", "TestKit", "StoreActor", "cipherctl"]),
        .kind("Property", ["TestKit"]),
        .kind("Tidy", ["StoreCrypto", "TestHarness"]),
    ],
    swiftLanguageModes: [.v6]
)

// libFuzzer has the main function of this program, so nothing else can link it: `make fuzz` sets the variable.
if Context.environment["CIPHERSTORE_FUZZ"] != nil {
    package.targets.append(
        .executableTarget(name: "StoreFuzzer", dependencies: ["FuzzTargets"], path: "Tests/Fuzz/StoreFuzzer"))
}

// Only these tests and what they need, with commas between them: building takes longer than running.
if let names = Context.environment["CIPHERSTORE_TEST_TARGETS"] {
    let dependencies = Dictionary(uniqueKeysWithValues: package.targets.map { ($0.name, $0.dependencies) })
    var needed: Set<String> = []
    var pending = names.split(separator: ",").map { Target.Dependency.byName(name: String($0)) }
    while let next = pending.popLast() {
        switch next {
        case .targetItem(let name, _), .byNameItem(let name, _):
            if needed.insert(name).inserted { pending += dependencies[name] ?? [] }
        default: break
        }
    }
    package.targets.removeAll { !needed.contains($0.name) }
    package.products.removeAll { !needed.contains($0.name == "FaultShimPreload" ? "FaultShim" : $0.name) }
}

// The README of each target under Sources tells what it is for.
for target in package.targets where target.path == nil && target.type != .system {
    target.exclude.append("README.md")
}

// `make OPTIMIZED=1` optimizes the library and its programs, not the tests. Debug builds keep their assertions.
if Context.environment["CIPHERSTORE_OPTIMIZED"] != nil {
    for target in package.targets where target.type == .regular || target.type == .executable {
        let flags = SwiftSetting.unsafeFlags(["-O", "-assert-config", "Debug"], .when(configuration: .debug))
        target.swiftSettings = (target.swiftSettings ?? []) + [flags]
    }
}

extension Target {
    /// A library of the system.
    static func system(_ name: String, package: String, apt: String, brew: String) -> Target {
        .systemLibrary(name: name, pkgConfig: package, providers: [.apt([apt]), .brew([brew])])
    }

    /// A target that tests share.
    static func support(_ name: String, _ dependencies: [Dependency] = []) -> Target {
        .target(name: name, dependencies: dependencies, path: "Tests/Support/" + name)
    }

    /// The tests of one target.
    static func unit(_ name: String, _ others: [Dependency] = []) -> Target {
        .testTarget(name: name + "Tests", dependencies: [.byName(name: name)] + others, path: "Tests/Unit/" + name)
    }

    /// The tests of one kind, of several targets.
    static func kind(_ name: String, _ dependencies: [Dependency]) -> Target {
        .testTarget(name: name + "Tests", dependencies: dependencies, path: "Tests/" + name, exclude: ["README.md"])
    }
}
