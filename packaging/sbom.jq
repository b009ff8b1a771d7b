# The bill of materials of an artifact, in CycloneDX. The input are those of its programs, which cyclonedx-gomod makes.
# $licenses has the license of each module. $packages are packages of Debian, one a line of perftest/packages.txt.
def property($name): .metadata.properties[] | select(.name == "cdx:gomod:binary:" + $name) | .value;
def program: .metadata.component + {
	name: property("name"), licenses: [{expression: "Apache-2.0"}],
	hashes: [{alg: "SHA-256", content: property("hash:SHA-256")}]
};
def library: . + {licenses: [{expression: ($licenses[.name] // error("no license of \(.name)"))}]};
def package:
	capture("^(?<arch>\\S+) (?<name>\\S+) (?<version>\\S+) (?<sum>\\S+) \\S+ (?<license>.+)$") |
	"pkg:deb/debian/\(.name)@\(.version | @uri)?arch=\(.arch)&distro=bookworm" as $purl |
	{
		"bom-ref": $purl, type: "library", name, version, hashes: [{alg: "SHA-256", content: .sum}],
		licenses: [{expression: .license}], purl: $purl
	};
[$packages | split("\n")[] | select(. != "") | package] as $packages |
[.[] | program] as $programs |
{
	"$schema": .[0]."$schema", bomFormat: "CycloneDX", specVersion: .[0].specVersion, version: 1,
	metadata: {
		timestamp: $date,
		component: {"bom-ref": $artifact, type: "application", name: $artifact, version: $version}
	},
	components: ($programs + [.[].components[] | library] + $packages | unique_by(."bom-ref")),
	dependencies: ([{ref: $artifact, dependsOn: [($programs + $packages)[]."bom-ref"]}] +
		([.[].dependencies[]] | group_by(.ref) | map({ref: .[0].ref, dependsOn: (map(.dependsOn // []) | add | unique)})))
}
